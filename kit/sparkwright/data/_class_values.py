"""Values that mean classes: to class numbers and one-hot vectors, or told what is wrong."""

from collections.abc import Collection, Iterable, Sequence
from heapq import nsmallest
from typing import Any, Literal

import numpy as np

from sparkwright.errors import ConfigurationError

from ._dataset import Array
from ._wording import clipped

Classes = int | Sequence[str] | Literal["infer"]
MOST_CLASSES = 100_000


def check_classes(option: str, classes: Any) -> None:
    """Refuse anything but a number of classes, their names, or "infer".

    Raises:
        ConfigurationError: naming the option.
    """
    number = isinstance(classes, int) and not isinstance(classes, bool) and classes >= 2
    names = (
        isinstance(classes, Sequence)
        and not isinstance(classes, str)
        and len(classes) >= 2
        and len(set(map(str, classes))) == len(classes)
    )
    if not (number or names or (isinstance(classes, str) and classes == "infer")):
        raise ConfigurationError(
            f"`{option}` must be a number of classes of at least 2, a list of as many different "
            f'names, or "infer". Received: {option}={classes!r}.'
        )


def class_numbers(values: Array, classes: int | Sequence[str]) -> tuple[Array, Array]:
    """The class numbers that `values` mean.

    Args:
        values: (n,) numbers where `classes` is a number, otherwise text.
        classes: how many (numbers from 0), or the names in the order of their numbers.

    Returns:
        (n,) int32; (n,) of bool, False where a value is no class (its number is then 0).

    Example:
        >>> numbers, good = class_numbers(np.array(["b", "a", "z"]), ["a", "b"])
        >>> numbers.tolist(), good.tolist()
        ([1, 0, 0], [True, True, False])
    """
    if isinstance(classes, int):
        good = np.isfinite(values) & (values >= 0) & (values < classes)
        good &= np.where(good, values, 0) == np.floor(np.where(good, values, 0))
        return np.where(good, values, 0).astype(np.int32), good
    number_of = {str(name): number for number, name in enumerate(classes)}
    texts, place = np.unique(np.asarray(values, str), return_inverse=True)
    numbers = np.array([number_of.get(str(text), -1) for text in texts], np.int32)[place]
    good = numbers >= 0
    return np.where(good, numbers, 0).astype(np.int32), good


def one_hot(numbers: Array, classes: int) -> Array:
    """(..., classes) float32 with a 1 at each number."""
    hot = np.zeros((*numbers.shape, classes), np.float32)
    np.put_along_axis(hot, numbers[..., None].astype(np.int64), 1, axis=-1)
    return hot


def together(found: Iterable[Iterable[str]]) -> frozenset[str]:
    """All values of `found`; of more than `MOST_CLASSES`, one more than these: enough to tell."""
    values: set[str] = set()
    for some in found:
        for value in some:
            if len(values) > MOST_CLASSES:
                return frozenset(values)
            values.add(value)
    return frozenset(values)


def found_text(values: Collection[str]) -> str:
    """How many values there are and the first few, for a message; `values` as of `together`."""
    count = f"{len(values)}" if len(values) <= MOST_CLASSES else f"more than {MOST_CLASSES:,}"
    names = ", ".join(clipped(value) for value in nsmallest(10, values))
    return f"{count}, {names}{', …' if len(values) > 10 else ''}"


def classes_text(classes: int | Sequence[str]) -> str:
    """What may be there, for a message."""
    if isinstance(classes, int):
        return f"an integer from 0 to {classes - 1}"
    names = [repr(name) for name in classes[:10]]
    return f"one of {', '.join(names)}{', …' if len(classes) > 10 else ''}"
