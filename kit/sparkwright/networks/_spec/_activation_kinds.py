"""Activations as layers of their own."""

from sparkwright.options import Option

from ._common_options import ACTIVATIONS
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, axis_of, known

Shapes = tuple[Shape, ...]


def _same(options: Options, inputs: Shapes) -> Outcome:
    return Outcome(inputs[0])


def _softmax(options: Options, inputs: Shapes) -> Outcome:
    axis_of(options["axis"], len(inputs[0]))
    return Outcome(inputs[0])


def _prelu(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    shared = options["shared_axes"] or []
    for axis in shared:
        if axis > len(shape):
            raise Misfit(f"`shared_axes` counts axes from 1 to {len(shape)}, and names {axis}.")
    count = 1
    for axis, length in enumerate(shape, start=1):
        if axis not in shared:
            count *= known(length, f"values on axis {axis}, or that axis shared")
    return Outcome(shape, count)


def _slope(default: float) -> Option:
    return Option(
        name="negative_slope",
        kind="float",
        default=default,
        minimum=0,
        help="What is left of negative values: 0 nothing, 1 all.",
    )


ACTIVATION_KINDS = (
    LayerKind(
        name="Activation",
        group="activation",
        sentence="Applies a function to each value.",
        options=(
            Option(
                name="activation",
                kind="choice",
                default="relu",
                choices=ACTIVATIONS,
                help="relu inside a network; softmax or sigmoid at its end.",
            ),
        ),
        rule=_same,
        required=("activation",),
        positional=("activation",),
    ),
    LayerKind(
        name="ReLU",
        group="activation",
        sentence="Negative values become 0.",
        options=(
            Option(
                name="max_value",
                kind="float",
                minimum=0,
                optional=True,
                none_text="no limit",
                help="Larger values become this.",
            ),
            _slope(0.0),
            Option(
                name="threshold",
                kind="float",
                default=0.0,
                minimum=0,
                help="Values below this count as negative.",
            ),
        ),
        rule=_same,
    ),
    LayerKind(
        name="LeakyReLU",
        group="activation",
        sentence="Negative values become small.",
        options=(_slope(0.3),),
        rule=_same,
    ),
    LayerKind(
        name="PReLU",
        group="activation",
        sentence="Negative values become small; by how much is learnt.",
        options=(
            Option(
                name="shared_axes",
                kind="ints",
                minimum=1,
                optional=True,
                none_text="none",
                help="For images 1, 2: one slope for each channel.",
            ),
        ),
        rule=_prelu,
        lists=("shared_axes",),
    ),
    LayerKind(
        name="ELU",
        group="activation",
        sentence="Negative values bend towards a bound.",
        options=(
            Option(
                name="alpha",
                kind="float",
                default=1.0,
                minimum=0,
                help="The bound is minus this.",
            ),
        ),
        rule=_same,
    ),
    LayerKind(
        name="Softmax",
        group="activation",
        sentence="Turns values into probabilities that sum to 1.",
        options=(Option(name="axis", kind="int", default=-1, help="-1: over the last axis."),),
        rule=_softmax,
    ),
)
