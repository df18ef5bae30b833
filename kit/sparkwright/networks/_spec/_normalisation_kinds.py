"""Layers that bring values to a common scale."""

from sparkwright.options import Option

from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, axis_of, known

Shapes = tuple[Shape, ...]


def _affine(options: Options, features: int) -> int:
    return features * (bool(options["center"]) + bool(options["scale"]))


def _axis_length(options: Options, shape: Shape) -> int:
    return known(shape[axis_of(options["axis"], len(shape))], "values on the normalised axis")


def _batch(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    features = _axis_length(options, shape)
    return Outcome(shape, _affine(options, features), fixed=2 * features)


def _layer(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    return Outcome(shape, _affine(options, _axis_length(options, shape)))


def _group(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    features, groups = _axis_length(options, shape), options["groups"]
    if groups == 0 or groups < -1:
        raise Misfit(f"`groups` must be at least 1, or -1 for one a channel, and is {groups}.")
    if groups != -1 and features % groups:
        raise Misfit(f"has {groups} groups, which do not divide the {features} channels.")
    return Outcome(shape, _affine(options, features))


def _unit(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    axis_of(options["axis"], len(shape))
    return Outcome(shape)


_AXIS = Option(
    name="axis",
    kind="int",
    default=-1,
    group="Further options",
    help="-1, the last axis, is that of channels and features.",
)
_EPSILON = Option(
    name="epsilon",
    kind="float",
    default=0.001,
    above=0,
    group="Further options",
    help="Keeps the division from going wrong where all values are equal.",
)
_AFFINE = (
    Option(name="center", kind="flag", default=True, help="Learns what to add afterwards."),
    Option(name="scale", kind="flag", default=True, help="Learns what to multiply by afterwards."),
)

NORMALISATION_KINDS = (
    LayerKind(
        name="BatchNormalization",
        group="normalisation",
        sentence="Brings each channel to mean 0 and deviation 1 over the minibatch.",
        options=(
            Option(
                name="momentum",
                kind="float",
                default=0.99,
                minimum=0,
                below=1,
                help="How slowly the means for prediction follow; 0.9 for short training.",
            ),
            *_AFFINE,
            _EPSILON,
            _AXIS,
        ),
        rule=_batch,
    ),
    LayerKind(
        name="LayerNormalization",
        group="normalisation",
        sentence="Brings the values of each example to mean 0 and deviation 1.",
        options=(*_AFFINE, _EPSILON, _AXIS),
        rule=_layer,
    ),
    LayerKind(
        name="GroupNormalization",
        group="normalisation",
        sentence="Brings groups of channels of each example to mean 0 and deviation 1.",
        options=(
            Option(
                name="groups",
                kind="int",
                default=32,
                minimum=-1,
                help="Must divide the number of channels; -1: each channel by itself.",
            ),
            *_AFFINE,
            _EPSILON,
            _AXIS,
        ),
        rule=_group,
    ),
    LayerKind(
        name="UnitNormalization",
        group="normalisation",
        sentence="Brings the vector on an axis to length 1.",
        options=(_AXIS,),
        rule=_unit,
    ),
    LayerKind(
        name="Rescaling",
        group="normalisation",
        sentence="Multiplies by a number and adds another, such as 1/255 for pixels.",
        options=(
            Option(
                name="scale",
                kind="float",
                default=1 / 255,
                help="1/255 brings pixels to 0..1.",
            ),
            Option(name="offset", kind="float", default=0.0, help="What is added afterwards."),
        ),
        rule=lambda options, inputs: Outcome(inputs[0], dtype="float32"),
        required=("scale",),
        positional=("scale",),
        any_dtype=True,
    ),
)
