"""Checks of options and of deserialized values, shared by all evaluations."""

import math
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import MAX_COUNT, check_count as check_argument, check_number

Counts = NDArray[np.int64]
LARGEST_COUNT = 2**61 - 1  # the sum of two such totals fits int64


class Values:
    """A dataclass of JSON values, arrays and nested `Values`."""

    # Fields with `compare=False` are neither compared nor serialized. Metadata from `read_as`
    # defines how fields are read.

    __slots__ = ()

    def _state(self) -> dict[str, Any]:
        declared: Any = self
        return {f.name: getattr(self, f.name) for f in fields(declared) if f.compare}

    def __eq__(self, other: object) -> bool:
        """Whether type and values are equal."""
        if type(other) is not type(self):
            return NotImplemented
        same_kind: Any = other
        theirs = same_kind._state()
        pairs = ((value, theirs[name]) for name, value in self._state().items())
        return all(np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b for a, b in pairs)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `from_dict` is the inverse."""
        return plain(self._state())

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Restore an instance from `to_dict`.

        Raises:
            DataError: if `values` are invalid.
        """
        declared: Any = cls
        sizes: dict[str, int] = {}
        with reading(cls.__name__):
            given = dict(values)
            return cls(
                **{
                    f.name: _read(f.name, given[f.name], f.metadata, sizes)
                    for f in fields(declared)
                    if f.name in given or f.default is f.default_factory is MISSING
                }
            )


def read_as(read: Any, *shape: int | str) -> dict[str, Any]:
    """Return field metadata: a class, or a function of name and JSON value, that reads it."""
    # Arrays must have the given shape; axes with the same name must have the same size.
    return {"read": read, "shape": shape}


def state(read: Any = None) -> dict[str, Any]:
    """Return metadata of a field with counted state, which is added; other fields are options."""
    return {"read": read, "state": True}


def _read(name: str, value: Any, metadata: Mapping[str, Any], sizes: dict[str, int]) -> Any:
    read, shape = metadata.get("read"), metadata.get("shape")
    if read is None or (value is None and isinstance(read, type)):
        return value
    found = read.from_dict(value) if isinstance(read, type) else read(name, value)
    if shape:
        fits = len(shape) == len(found.shape) and all(
            (sizes.setdefault(size, n) if isinstance(size, str) else size) == n
            for size, n in zip(shape, found.shape, strict=True)
        )
        if not fits:
            raise DataError(
                f"`{name}` must have shape {shape} with {sizes}. Received: shape {found.shape}."
            )
    return found


def plain(value: Any) -> Any:
    """Convert a field's value to JSON values."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [plain(each) for each in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.to_dict() if hasattr(value, "to_dict") else value


@contextmanager
def reading(what: str) -> Generator[None]:
    """Convert errors that a constructor raises for invalid values of `what` to a DataError."""
    try:
        yield
    except DataError:
        raise
    except (
        *(ConfigurationError, AttributeError, LookupError, TypeError, ValueError, OverflowError),
    ) as error:
        raise DataError(
            f"{what} must be restored from a result of `to_dict`. Received: {error}."
        ) from None


def check_count(name: str, value: Any, *, minimum: int = 1, maximum: int | None = None) -> None:
    """Check a count; a fast path for the valid values of each batch."""
    if type(value) is not int or not minimum <= value <= (maximum or MAX_COUNT):
        check_argument(name, value, minimum=minimum, maximum=maximum)


def check_share(option: str, value: Any) -> None:
    """Raise ConfigurationError unless the option is a number from 0 to 1; NumPy's are valid."""
    number = value.item() if isinstance(value, np.generic) else value
    check_number(option, number, minimum=0, maximum=1)


def checked_names(option: str, names: Iterable[str] | None) -> tuple[str, ...] | None:
    """Return unique names as a tuple, None as None; raise ConfigurationError otherwise."""
    if names is None:
        return None
    checked: tuple[Any, ...] = (names,) if isinstance(names, str) else tuple(names)
    texts = not isinstance(names, str) and all(isinstance(name, str) for name in checked)
    if not texts or len(set(checked)) != len(checked) or not checked:
        raise ConfigurationError(
            f"`{option}` must be a list of unique names. Received: {option}={names!r:.100}."
        )
    return checked


def number_of(of: int | str, names: tuple[str, ...]) -> int:
    """Return the index of `of`, a number or a name; raise ConfigurationError if it is unknown."""
    if isinstance(of, str) and of in names:
        return names.index(of)
    if not isinstance(of, str | bool) and 0 <= of < len(names):
        return int(of)
    raise ConfigurationError(
        f"`of` must be a number from 0 to {len(names) - 1} or one of {list(names[:20])}. "
        f"Received: of={of!r}."
        if names
        else f"`of` needs an evaluation with data or names. Received: of={of!r} without either."
    )


def checked_counts(
    name: str, given: ArrayLike, shape: tuple[int | None, ...] | None = None
) -> Counts:
    """Return a read-only int64 copy of counts; None in `shape` allows any size of an axis."""
    try:
        counts = np.asarray(given)
    except ValueError:
        raise DataError(
            f"`{name}` must be rows of the same length. Received: {given!r:.80}."
        ) from None
    if shape is not None and (
        counts.ndim != len(shape)
        or any(size not in (None, n) for size, n in zip(shape, counts.shape, strict=True))
    ):
        wanted = str(shape).replace("None", "any")
        raise DataError(f"`{name}` must have shape {wanted}. Received: shape {counts.shape}.")
    if counts.size == 0:
        counts = counts.astype(np.int64)
    if counts.dtype.kind == "u":
        counts = counts.astype(np.int64)  # negative from 2**63
    if counts.dtype.kind != "i" or bool((counts < 0).any()):
        least = f", minimum {counts.min()}" if counts.dtype.kind in "if" and counts.size else ""
        raise DataError(
            f"`{name}` must hold counts: integers of at least 0. "
            f"Received: dtype {counts.dtype}{least}."
        )
    return frozen(counts.astype(np.int64))  # a copy: the caller's array may change


def checked_floats(name: str, given: ArrayLike, least: float = -np.inf) -> NDArray[np.float64]:
    """Return a read-only float64 copy; raise DataError unless all are finite and >= `least`."""
    values = np.asarray(given)
    if values.size and values.dtype.kind not in "fi":
        raise DataError(f"`{name}` must be numbers. Received: {given!r:.80}.")
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or bool((values < least).any()):
        raise DataError(f"`{name}` must be finite and at least {least}. Received: {given!r:.80}.")
    return frozen(values)


def read_count(name: str, given: Any) -> int:
    """Return one count; raise DataError if it is not one."""
    return int(checked_counts(name, given, ()))


def read_number(name: str, given: Any) -> float:
    """Return one finite number; raise DataError if it is not one."""
    return float(checked_floats(name, given))


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Make an array read-only and return it."""
    array.setflags(write=False)
    return array


def checked_costs(costs: Any) -> tuple[float, ...] | None:
    """Return the factor of each class as a tuple; None as None."""
    if costs is None:
        return None
    values = np.asarray(costs)
    if values.dtype.kind in "iuf" and values.shape in ((values.size,), (1, values.size)):
        found = tuple(map(float, values.reshape(-1)))
        if len(found) > 1 and all(math.isfinite(c) and c >= 0 for c in found) and any(found):
            return found
    raise ConfigurationError(
        "`costs` must be a finite number of at least 0 for each class, at least one above 0. "
        f"Received: costs={costs!r}."
    )
