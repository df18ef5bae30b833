"""Layers that only lay values out differently."""

from math import prod
from typing import Any

from sparkwright.options import Option

from ._common_options import sizes
from ._convolution_kinds import AXES, REMEDY, WHAT
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, check_lengths, check_rank, lengths, shape_text, size_of

Shapes = tuple[Shape, ...]


def _flattened(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    return Outcome((size_of(shape),))


def _reshaped(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    target = options["target_shape"]
    if target.count(-1) > 1 or any(n == 0 for n in target):
        raise Misfit("`target_shape` may hold -1 once, for what is left, and otherwise counts.")
    size = size_of(shape)
    if size is None:
        return Outcome(tuple(None if n == -1 else n for n in target))
    counted = prod(n for n in target if n != -1)
    fits = size % counted == 0 if -1 in target else size == counted
    if not fits:
        raise Misfit(
            f"needs {counted:,} numbers{' or a multiple' if -1 in target else ''} for the shape "
            f"{shape_text(target)}, receives {size:,} ({shape_text(shape)})."
        )
    return Outcome(tuple(size // counted if n == -1 else n for n in target))


def _permuted(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    dims = options["dims"]
    if sorted(dims) != list(range(1, len(shape) + 1)):
        raise Misfit(
            f"`dims` must name each axis once, counted from 1: the input has {len(shape)}, "
            f"and `dims` is {dims}."
        )
    return Outcome(tuple(shape[n - 1] for n in dims))


def _repeated(options: Options, inputs: Shapes) -> Outcome:
    (shape,) = inputs
    check_rank(shape, 1, "one vector an example", "Put a Flatten before it.")
    return Outcome((options["n"], *shape))


def edges(value: Any, rank: int, name: str) -> tuple[tuple[int, int], ...]:
    """Before and after each axis: from one number, one an axis, or two an axis.

    Raises:
        Misfit: if there are other counts of numbers.
    """
    if rank > 1 and not isinstance(value, int) and len(value) == 2 * rank:
        return tuple((value[2 * i], value[2 * i + 1]) for i in range(rank))
    if rank == 1 and not isinstance(value, int) and len(value) == 2:
        return ((value[0], value[1]),)
    if rank > 1 and not isinstance(value, int) and len(value) != rank:
        raise Misfit(
            f"`{name}` must be one integer, {rank}, or {2 * rank} (top, bottom, left, right), "
            f"and is {list(value)}."
        )
    return tuple((n, n) for n in lengths(value, rank, name))


def _padded(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    around = edges(options["padding"], rank, "padding")
    made = (
        None if n is None else n + before + after
        for n, (before, after) in zip(shape[:-1], around, strict=True)
    )
    return Outcome((*made, shape[-1]))


def _cropped(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    around = edges(options["cropping"], rank, "cropping")
    check_lengths(shape[:-1], [before + after + 1 for before, after in around], AXES[rank])
    made = (
        None if n is None else n - before - after
        for n, (before, after) in zip(shape[:-1], around, strict=True)
    )
    return Outcome((*made, shape[-1]))


def _enlarged(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    size = lengths(options["size"], rank, "size")
    made = (None if n is None else n * by for n, by in zip(shape[:-1], size, strict=True))
    return Outcome((*made, shape[-1]))


def _edge_option(name: str, rank: int, default: Any) -> Option:
    both = "before, after" if rank == 1 else "height, width, or top, bottom, left, right"
    return Option(
        name=name, kind="ints", default=default, minimum=0, help=f"One number, or {both}."
    )


RESHAPING_KINDS = (
    LayerKind(
        name="Flatten",
        group="reshaping",
        sentence="Lays all values of an example out in one row.",
        rule=_flattened,
        any_dtype=True,
    ),
    LayerKind(
        name="Reshape",
        group="reshaping",
        sentence="Lays the values out in another shape with the same count.",
        options=(
            Option(
                name="target_shape",
                kind="ints",
                default=[-1],
                minimum=-1,
                help="Without the minibatch's axis; -1 once: whatever is left.",
            ),
        ),
        rule=_reshaped,
        required=("target_shape",),
        positional=("target_shape",),
        lists=("target_shape",),
        any_dtype=True,
    ),
    LayerKind(
        name="Permute",
        group="reshaping",
        sentence="Puts the axes in another order.",
        options=(
            Option(
                name="dims",
                kind="ints",
                default=[2, 1],
                minimum=1,
                label="Axes",
                help="Counted from 1: 2, 1 swaps steps and features.",
            ),
        ),
        rule=_permuted,
        required=("dims",),
        positional=("dims",),
        lists=("dims",),
        any_dtype=True,
    ),
    LayerKind(
        name="RepeatVector",
        group="reshaping",
        sentence="Makes a sequence that repeats one vector, as decoders need it.",
        options=(
            Option(
                name="n",
                kind="int",
                default=2,
                minimum=1,
                label="Steps",
                help="Length of the sequence.",
            ),
        ),
        rule=_repeated,
        required=("n",),
        positional=("n",),
        any_dtype=True,
    ),
    *(
        LayerKind(
            name=f"ZeroPadding{rank}D",
            group="reshaping",
            sentence=f"Adds zeros around {WHAT[rank]}.",
            options=(_edge_option("padding", rank, 1),),
            rule=lambda options, inputs, rank=rank: _padded(options, inputs, rank),
            positional=("padding",),
            any_dtype=True,
        )
        for rank in (1, 2)
    ),
    *(
        LayerKind(
            name=f"Cropping{rank}D",
            group="reshaping",
            sentence=f"Cuts off the edges of {WHAT[rank]}.",
            options=(_edge_option("cropping", rank, {1: 1, 2: 0}[rank]),),
            rule=lambda options, inputs, rank=rank: _cropped(options, inputs, rank),
            positional=("cropping",),
            any_dtype=True,
        )
        for rank in (1, 2)
    ),
    LayerKind(
        name="UpSampling1D",
        group="reshaping",
        sentence="Repeats each step of a sequence.",
        options=(sizes("size", 2, "How often each step stands there."),),
        rule=lambda options, inputs: _enlarged(options, inputs, 1),
        positional=("size",),
    ),
    LayerKind(
        name="UpSampling2D",
        group="reshaping",
        sentence="Makes images larger.",
        options=(
            sizes("size", 2, "By how much the axes grow."),
            Option(
                name="interpolation",
                kind="choice",
                default="nearest",
                choices=("nearest", "bilinear", "bicubic", "lanczos3", "lanczos5"),
                help="nearest repeats pixels; bilinear is smoother.",
            ),
        ),
        rule=lambda options, inputs: _enlarged(options, inputs, 2),
        positional=("size",),
    ),
)
