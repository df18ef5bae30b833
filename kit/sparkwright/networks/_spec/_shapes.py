"""Shapes of one example, in words and in numbers, and how a window passes over an axis."""

from collections.abc import Sequence
from math import prod
from typing import Any

Shape = tuple[int | None, ...]  # of one example; None: of any length


class Misfit(Exception):
    """What is wrong with a layer, in one sentence; it stays within the analysis."""


def shape_text(shape: Sequence[int | None]) -> str:
    """The shape as people write it.

    Example:
        >>> shape_text((28, 28, 1)), shape_text((None, 3)), shape_text(())
        ('28 x 28 x 1', 'any x 3', 'a single number')
    """
    return " x ".join("any" if n is None else str(n) for n in shape) or "a single number"


def size_of(shape: Shape) -> int | None:
    """How many numbers one example holds; None if an axis may be of any length.

    Example:
        >>> size_of((4, 5)), size_of((None, 5))
        (20, None)
    """
    return None if None in shape else prod(n for n in shape if n is not None)


def check_rank(shape: Shape, rank: int, what: str, remedy: str = "") -> None:
    """Refuse a shape that has not `rank` axes.

    Raises:
        Misfit: saying `what` is needed.
    """
    if len(shape) != rank:
        raise Misfit(f"needs {what}, receives {shape_text(shape)}.{' ' if remedy else ''}{remedy}")


def known(length: int | None, what: str) -> int:
    """The length of an axis that must be known.

    Raises:
        Misfit: if it is of any length.
    """
    if length is None:
        raise Misfit(f"needs a known number of {what}, receives any. Give the Input that length.")
    return length


def lengths(value: Any, count: int, name: str) -> tuple[int, ...]:
    """An option that is one integer for all axes, or one for each.

    Raises:
        Misfit: if there are neither one nor `count` of them.

    Example:
        >>> lengths(3, 2, "kernel_size"), lengths([3, 5], 2, "kernel_size")
        ((3, 3), (3, 5))
    """
    if isinstance(value, int):
        return (value,) * count
    found = tuple(value)
    if len(found) != count:
        raise Misfit(f"`{name}` must be one integer or {count}, and is {list(found)}.")
    return found


def axis_of(axis: int, rank: int, name: str = "axis") -> int:
    """The axis of one example, from 0, that Keras' `axis` means, which counts the batch as 0.

    Raises:
        Misfit: if there is no such axis, or it is that of the batch.

    Example:
        >>> axis_of(-1, 3), axis_of(1, 3)
        (2, 0)
    """
    found = axis - 1 if axis > 0 else rank + axis
    if axis == 0 or not 0 <= found < rank:
        raise Misfit(
            f"`{name}` must be from 1 to {rank}, or from -1 to -{rank} counted from the end, "
            f"and is {axis}."
        )
    return found


def slide(
    shape: Shape,
    window: Sequence[int],
    strides: Sequence[int],
    padding: str,
    names: Sequence[str],
) -> Shape:
    """Lengths of the axes after a window has passed over them.

    Args:
        shape: the axes it passes over.
        window: its extent on each, dilation included.
        strides: how far it goes at each step.
        padding: "valid": only where it fits; "same" and "causal": also over the edges.
        names: what the axes are called.

    Raises:
        Misfit: if it does not fit.

    Example:
        >>> slide((28, 28), (5, 5), (1, 1), "valid", ("height", "width"))
        (24, 24)
        >>> slide((None, 7), (2, 2), (2, 2), "same", ("height", "width"))
        (None, 4)
    """
    if padding == "valid":
        check_lengths(shape, window, names)
        return tuple(
            None if n is None else (n - extent) // step + 1
            for n, extent, step in zip(shape, window, strides, strict=True)
        )
    return tuple(
        None if n is None else (n - 1) // step + 1 for n, step in zip(shape, strides, strict=True)
    )


def check_lengths(shape: Shape, least: Sequence[int], names: Sequence[str]) -> None:
    """Refuse axes that are shorter than `least`.

    Raises:
        Misfit: naming the axes, what they need and what they are.
    """
    if all(n is None or n >= need for n, need in zip(shape, least, strict=True)):
        return
    if len(set(least)) == 1:
        needs = f"{' and '.join(names)} of at least {least[0]}"
    else:
        needs = " and ".join(
            f"a {name} of at least {need}" for name, need in zip(names, least, strict=True)
        )
    raise Misfit(f"needs {needs}, receives {shape_text(shape)}.")
