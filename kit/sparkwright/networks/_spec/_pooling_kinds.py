"""Pooling: one number for each window, or for everything."""

from sparkwright.options import Option

from ._common_options import padding, sizes
from ._convolution_kinds import AXES, REMEDY, WHAT
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Shape, check_rank, lengths, slide

Shapes = tuple[Shape, ...]


def _pooled(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    window = lengths(options["pool_size"], rank, "pool_size")
    given = options["strides"]
    strides = window if given is None else lengths(given, rank, "strides")
    made = slide(shape[:-1], window, strides, options["padding"], AXES[rank])
    return Outcome((*made, shape[-1]))


def _pooled_at_once(options: Options, inputs: Shapes, rank: int) -> Outcome:
    (shape,) = inputs
    check_rank(shape, rank + 1, WHAT[rank], REMEDY)
    ones = (1,) * rank if options["keepdims"] else ()
    return Outcome((*ones, shape[-1]))


_POOL = sizes("pool_size", 2, "2 halves the axes.")
_POOL_STRIDES = sizes("strides", None, "Usually as large as the window.", optional=True)


def _kind(rank: int, what: str) -> LayerKind:
    words = {"Max": "the largest value", "Average": "the mean"}
    return LayerKind(
        name=f"{what}Pooling{rank}D",
        group="pooling",
        sentence=f"Keeps {words[what]} of each window of {WHAT[rank]}.",
        options=(_POOL, _POOL_STRIDES, padding()),
        rule=lambda options, inputs: _pooled(options, inputs, rank),
        required=("pool_size",) if what == "Average" else (),
        positional=("pool_size",),
    )


def _global_kind(rank: int, what: str) -> LayerKind:
    words = {"Max": "the largest value", "Average": "the mean"}
    return LayerKind(
        name=f"Global{what}Pooling{rank}D",
        group="pooling",
        sentence=f"Keeps {words[what]} of each channel of {WHAT[rank]}.",
        options=(
            Option(
                name="keepdims",
                kind="flag",
                default=False,
                label="Keep the axes",
                help="Whether the axes stay, with length 1.",
            ),
        ),
        rule=lambda options, inputs: _pooled_at_once(options, inputs, rank),
    )


POOLING_KINDS = tuple(
    make(rank, what)
    for make in (_kind, _global_kind)
    for rank in (1, 2)
    for what in ("Max", "Average")
)
