"""Inputs, dense layers and masks."""

from sparkwright.options import Option

from ._common_options import activation, weights
from ._layer_kind import LayerKind, Options, Outcome
from ._shape_option import ShapeOption
from ._shapes import Misfit, Shape, known

DTYPES = ("float32", "float16", "float64", "int32", "int64", "uint8")
Shapes = tuple[Shape, ...]


def same(options: Options, inputs: Shapes) -> Outcome:
    """The rule of layers that leave the shape as it is and hold nothing."""
    return Outcome(inputs[0])


def dense_weights(options: Options, features: int) -> Outcome:
    """A dense layer over one vector of `features` numbers."""
    units = options["units"]
    return Outcome((units,), (features + bool(options["use_bias"])) * units)


def _input(options: Options, inputs: Shapes) -> Outcome:
    return Outcome(tuple(options["shape"]), dtype=options["dtype"])


def _dense(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    if not shape:
        raise Misfit("needs at least one axis, receives a single number. Put a Reshape before it.")
    made = dense_weights(options, known(shape[-1], "features on the last axis"))
    return made._replace(shape=(*shape[:-1], *made.shape))


def _time_distributed(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    if len(shape) < 2:
        raise Misfit("needs sequences (steps x features). Put a Reshape before it.")
    return _dense(options, inputs)


_UNITS = Option(
    name="units",
    kind="int",
    default=64,
    minimum=1,
    help="How many outputs; for the last layer, one for each class or value.",
)

CORE_KINDS = (
    LayerKind(
        name="Input",
        group="core",
        sentence="Where examples come in: gives their shape, without the axis of the minibatch.",
        options=(
            ShapeOption(
                name="shape",
                kind="ints",
                default=[28, 28, 1],
                minimum=1,
                help="Tables: columns. Images: height, width, channels. Series: steps, values.",
            ),
            Option(
                name="dtype",
                kind="choice",
                default="float32",
                choices=DTYPES,
                help="int32 for the indices that an Embedding takes.",
            ),
        ),
        rule=_input,
        takes="none",
        required=("shape",),
        positional=("shape",),
    ),
    LayerKind(
        name="Dense",
        group="core",
        sentence="Every output is a weighted sum of all numbers on the last axis.",
        options=(_UNITS, activation(), *weights()),
        rule=_dense,
        required=("units",),
        positional=("units",),
    ),
    LayerKind(
        name="TimeDistributed",
        group="core",
        sentence="The same dense layer for each step of a sequence.",
        options=(_UNITS, activation(), *weights()),
        rule=_time_distributed,
        required=("units",),
        inner="Dense",
    ),
    LayerKind(
        name="Masking",
        group="core",
        sentence="Tells recurrent layers to skip steps in which every value equals the mask's.",
        options=(
            Option(
                name="mask_value",
                kind="float",
                default=0.0,
                help="What steps beyond a sequence's end are filled with.",
            ),
        ),
        rule=same,
    ),
)
