"""Options that layers of many kinds have."""

from sparkwright.options import Option

ACTIVATIONS = (
    "linear",
    "relu",
    "sigmoid",
    "softmax",
    "tanh",
    "elu",
    "selu",
    "gelu",
    "silu",
    "softplus",
    "softsign",
    "exponential",
    "hard_sigmoid",
    "leaky_relu",
    "relu6",
    "mish",
    "log_softmax",
)
INITIALIZERS = {
    "glorot_uniform": "GlorotUniform",
    "glorot_normal": "GlorotNormal",
    "he_uniform": "HeUniform",
    "he_normal": "HeNormal",
    "lecun_uniform": "LecunUniform",
    "lecun_normal": "LecunNormal",
    "orthogonal": "Orthogonal",
    "random_uniform": "RandomUniform",
    "random_normal": "RandomNormal",
    "truncated_normal": "TruncatedNormal",
    "zeros": "Zeros",
    "ones": "Ones",
}
WITHOUT_CHANCE = ("zeros", "ones")
WEIGHTS = "Weights"  # the group of options about initial values and bounds


def activation(default: str = "linear") -> Option:
    """The function that the layer applies last."""
    return Option(
        name="activation",
        kind="choice",
        default=default,
        choices=ACTIVATIONS,
        help="relu inside a network; softmax, sigmoid or linear at its end.",
    )


def use_bias() -> Option:
    """Whether a number is added to each output."""
    return Option(
        name="use_bias",
        kind="flag",
        default=True,
        label="Bias",
        group=WEIGHTS,
        help="Not needed when a BatchNormalization follows.",
    )


def initializer(weight: str = "kernel", default: str = "glorot_uniform") -> Option:
    """How a weight begins."""
    return Option(
        name=f"{weight}_initializer",
        kind="choice",
        default=default,
        choices=tuple(INITIALIZERS),
        group=WEIGHTS,
        help="he_normal or he_uniform suits relu; glorot_uniform suits tanh and softmax.",
    )


def regularizers(weight: str = "kernel") -> tuple[Option, Option, Option]:
    """Penalties on large weights, and their largest norm."""
    name = weight.capitalize()
    return (
        Option(
            name=f"{weight}_l1",
            kind="float",
            default=0.0,
            minimum=0,
            label=f"{name} L1 penalty",
            group=WEIGHTS,
            help="Adds this times the sum of absolute weights to the loss; drives weights to 0.",
        ),
        Option(
            name=f"{weight}_l2",
            kind="float",
            default=0.0,
            minimum=0,
            label=f"{name} L2 penalty",
            group=WEIGHTS,
            help="Adds this times the sum of squared weights to the loss; 1e-4 is common.",
        ),
        Option(
            name=f"{weight}_max_norm",
            kind="float",
            above=0,
            optional=True,
            none_text="no limit",
            label=f"{name} largest norm",
            group=WEIGHTS,
            help="Shortens the weights of each unit to this norm after every step.",
        ),
    )


def weights(weight: str = "kernel") -> tuple[Option, ...]:
    """Bias, initial values and penalties of a layer with one kernel."""
    return (use_bias(), initializer(weight), *regularizers(weight))


def sizes(
    name: str, default: int | None, advice: str = "", *, label: str = "", optional: bool = False
) -> Option:
    """A number for all axes, or one for each."""
    return Option(
        name=name,
        kind="ints",
        default=default,
        minimum=1,
        label=label,
        help=advice,
        optional=optional,
        none_text="as large as the window",
    )


def padding(*choices: str) -> Option:
    """What happens at the edges."""
    return Option(
        name="padding",
        kind="choice",
        default="valid",
        choices=("valid", "same", *choices),
        help="valid: only where the window fits; same: the edges are filled up with zeros.",
    )


def rate(advice: str, *, name: str = "rate", default: float = 0.5) -> Option:
    """A part of the values, from 0 to 1."""
    return Option(name=name, kind="float", default=default, minimum=0, maximum=1, help=advice)
