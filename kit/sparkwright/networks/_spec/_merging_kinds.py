"""Layers that make one output of several inputs."""

from functools import reduce

from sparkwright.options import Option

from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, axis_of, shape_text

Shapes = tuple[Shape, ...]


def _broadcast(first: Shape, second: Shape) -> Shape:
    longer, shorter = (first, second) if len(first) >= len(second) else (second, first)
    tail = longer[len(longer) - len(shorter) :]
    made: list[int | None] = list(longer[: len(longer) - len(shorter)])
    for one, other in zip(tail, shorter, strict=True):
        if one is None or other is None:
            made.append(None)
        elif one == other or other == 1:
            made.append(one)
        elif one == 1:
            made.append(other)
        else:
            raise Misfit(
                f"needs inputs of one shape, receives {shape_text(first)} and {shape_text(second)}."
            )
    return tuple(made)


def _elementwise(options: Options, inputs: Shapes) -> Outcome:
    return Outcome(reduce(_broadcast, inputs))


def _concatenated(options: Options, inputs: Shapes) -> Outcome:
    first = inputs[0]
    axis = axis_of(options["axis"], len(first))
    for shape in inputs[1:]:
        same_rank = len(shape) == len(first)
        if not same_rank or any(
            one != other and None not in (one, other)
            for place, (one, other) in enumerate(zip(first, shape, strict=True))
            if place != axis
        ):
            raise Misfit(
                f"needs inputs that agree in every axis but number {axis + 1}, receives "
                f"{shape_text(first)} and {shape_text(shape)}."
            )
    made = list(first)
    for place in range(len(first)):
        values = [shape[place] for shape in inputs]
        if place == axis:
            made[place] = None if None in values else sum(n for n in values if n is not None)
        else:
            made[place] = next((n for n in values if n is not None), None)
    return Outcome(tuple(made))


def _dot(options: Options, inputs: Shapes) -> Outcome:
    first, second = inputs
    given = options["axes"]
    pair = (given, given) if isinstance(given, int) else tuple(given)
    if len(pair) != 2:
        raise Misfit(f"`axes` must be one axis, or one of each input, and is {list(pair)}.")
    left, right = axis_of(pair[0], len(first), "axes"), axis_of(pair[1], len(second), "axes")
    if first[left] != second[right]:
        raise Misfit(
            f"needs axes of one length, receives {shape_text(first)} (axis {left + 1}) and "
            f"{shape_text(second)} (axis {right + 1})."
        )
    made = (*first[:left], *first[left + 1 :], *second[:right], *second[right + 1 :])
    return Outcome(made or (1,))


_SENTENCES = {
    "Add": "Adds its inputs, as residual connections do.",
    "Multiply": "Multiplies its inputs, as gates do.",
    "Average": "The mean of its inputs.",
    "Maximum": "The largest of its inputs, place by place.",
    "Minimum": "The smallest of its inputs, place by place.",
    "Subtract": "The first input less the second.",
}

MERGING_KINDS = (
    *(
        LayerKind(
            name=name,
            group="merging",
            sentence=sentence,
            rule=_elementwise,
            takes="several",
            most=2 if name == "Subtract" else None,
        )
        for name, sentence in _SENTENCES.items()
    ),
    LayerKind(
        name="Concatenate",
        group="merging",
        sentence="Puts its inputs side by side.",
        options=(
            Option(
                name="axis",
                kind="int",
                default=-1,
                help="-1: the last axis, that of features or channels; 1: one after another.",
            ),
        ),
        rule=_concatenated,
        takes="several",
    ),
    LayerKind(
        name="Dot",
        group="merging",
        sentence="Products of vectors of its two inputs: how much they agree.",
        options=(
            Option(
                name="axes",
                kind="ints",
                default=1,
                help="The axis to sum over, counted from 1; or one for each input.",
            ),
            Option(
                name="normalize",
                kind="flag",
                default=False,
                help="Makes it the cosine of the angle.",
            ),
        ),
        rule=_dot,
        takes="several",
        most=2,
        required=("axes",),
        positional=("axes",),
    ),
)
