"""Convolutions, and their transposes."""

from math import prod

from sparkwright.options import Option

from ._common_options import (
    activation,
    initializer,
    padding,
    regularizers,
    sizes,
    use_bias,
    weights,
)
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, check_rank, known, lengths, slide

Shapes = tuple[Shape, ...]
AXES = {1: ("steps",), 2: ("height", "width"), 3: ("depth", "height", "width")}
WHAT = {
    1: "sequences (steps x features)",
    2: "images (height x width x channels)",
    3: "volumes (depth x height x width x channels)",
}
REMEDY = "Put a Reshape before it."


def _window(options: Options, rank: int) -> tuple[tuple[int, ...], ...]:
    """Kernel size, strides and dilation, one number an axis.

    Raises:
        Misfit: if both strides and dilation are above 1, which Keras refuses.
    """
    kernel, strides, dilation = (
        lengths(options[name], rank, name) for name in ("kernel_size", "strides", "dilation_rate")
    )
    if max(strides) > 1 and max(dilation) > 1:
        raise Misfit("has `strides` and `dilation_rate` above 1; set one of them to 1.")
    return kernel, strides, dilation


def _slid(options: Options, shape: Shape, rank: int) -> Shape:
    kernel, strides, dilation = _window(options, rank)
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    return slide(shape[:-1], extent, strides, options["padding"], AXES[rank])


def _convolution(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    channels, filters, groups = known(shape[-1], "channels"), options["filters"], options["groups"]
    for count, what in ((channels, "channels"), (filters, "filters")):
        if count % groups:
            raise Misfit(f"has {groups} groups, which do not divide the {count} {what}.")
    kernel = lengths(options["kernel_size"], rank, "kernel_size")
    parameters = prod(kernel) * (channels // groups) * filters + options["use_bias"] * filters
    return Outcome((*_slid(options, shape, rank), filters), parameters)


def _separable(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    channels, filters = known(shape[-1], "channels"), options["filters"]
    kernel = lengths(options["kernel_size"], rank, "kernel_size")
    wide = channels * options["depth_multiplier"]
    parameters = prod(kernel) * wide + wide * filters + options["use_bias"] * filters
    return Outcome((*_slid(options, shape, rank), filters), parameters)


def _depthwise(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    check_rank(shape, 3, WHAT[2], REMEDY)
    wide = known(shape[-1], "channels") * options["depth_multiplier"]
    kernel = lengths(options["kernel_size"], 2, "kernel_size")
    parameters = prod(kernel) * wide + options["use_bias"] * wide
    return Outcome((*_slid(options, shape, 2), wide), parameters)


def _transposed(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    channels, filters = known(shape[-1], "channels"), options["filters"]
    kernel = lengths(options["kernel_size"], rank, "kernel_size")
    strides = lengths(options["strides"], rank, "strides")
    made = tuple(
        None if n is None else n * s if options["padding"] == "same" else (n - 1) * s + max(k, s)
        for n, k, s in zip(shape[:-1], kernel, strides, strict=True)
    )
    parameters = prod(kernel) * channels * filters + options["use_bias"] * filters
    return Outcome((*made, filters), parameters)


_FILTERS = Option(
    name="filters",
    kind="int",
    default=32,
    minimum=1,
    help="How many patterns it looks for; often doubled after each pooling.",
)
_KERNEL = sizes("kernel_size", 3, "3 is common; 5 or 7 in the first layer.")
_STRIDES = sizes("strides", 1, "2 halves the output's axes.")
_DILATION = sizes("dilation_rate", 1, "Above 1 the kernel leaves gaps, and sees further.")
_ONE_STRIDE = Option(
    name="strides", kind="int", default=1, minimum=1, help="2 halves the output's axes."
)
_MULTIPLIER = Option(
    name="depth_multiplier", kind="int", default=1, minimum=1, help="Patterns for each channel."
)
_GROUPS = Option(
    name="groups",
    kind="int",
    default=1,
    minimum=1,
    group="Further options",
    help="Above 1 each group of channels has filters of its own; TensorFlow wants a GPU for it.",
)


def _convolution_kind(rank: int) -> LayerKind:
    return LayerKind(
        name=f"Conv{rank}D",
        group="convolution",
        sentence=f"Looks for small patterns in {WHAT[rank]}, everywhere with the same weights.",
        options=(
            _FILTERS,
            _KERNEL,
            _STRIDES,
            padding(*(["causal"] if rank == 1 else [])),
            _DILATION,
            activation(),
            _GROUPS,
            *weights(),
        ),
        rule=lambda options, inputs: _convolution(options, inputs, rank),
        required=("filters", "kernel_size"),
        positional=("filters", "kernel_size"),
    )


def _separable_kind(rank: int) -> LayerKind:
    return LayerKind(
        name=f"SeparableConv{rank}D",
        group="convolution",
        sentence="A convolution in two steps, each channel by itself, then all of them: cheaper.",
        options=(
            _FILTERS,
            _KERNEL,
            _ONE_STRIDE,
            padding(),
            _DILATION,
            _MULTIPLIER,
            activation(),
            use_bias(),
            initializer("depthwise"),
            initializer("pointwise"),
            *regularizers("depthwise"),
            *regularizers("pointwise"),
        ),
        rule=lambda options, inputs: _separable(options, inputs, rank),
        required=("filters", "kernel_size"),
        positional=("filters", "kernel_size"),
    )


def _transposed_kind(rank: int) -> LayerKind:
    return LayerKind(
        name=f"Conv{rank}DTranspose",
        group="convolution",
        sentence="The way back of a convolution: makes larger outputs of smaller inputs.",
        options=(_FILTERS, _KERNEL, _STRIDES, padding(), activation(), *weights()),
        rule=lambda options, inputs: _transposed(options, inputs, rank),
        required=("filters", "kernel_size"),
        positional=("filters", "kernel_size"),
    )


CONVOLUTION_KINDS = (
    _convolution_kind(1),
    _convolution_kind(2),
    _convolution_kind(3),
    _separable_kind(1),
    _separable_kind(2),
    LayerKind(
        name="DepthwiseConv2D",
        group="convolution",
        sentence="A convolution of each channel of an image by itself.",
        options=(
            _KERNEL,
            _ONE_STRIDE,
            padding(),
            _MULTIPLIER,
            _DILATION,
            activation(),
            *weights("depthwise"),
        ),
        rule=_depthwise,
        required=("kernel_size",),
        positional=("kernel_size",),
    ),
    _transposed_kind(1),
    _transposed_kind(2),
)
