"""The base class of all evaluations."""

import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, NamedTuple, Self

from numpy.typing import ArrayLike

from sparkwright._yaml import strict_json
from sparkwright.errors import ConfigurationError, DataError

from .checks import Values, checked_names, plain
from .numbers import number_text
from .reports import Figure, Report, Table

# Name in JSON -> class.
_KINDS: dict[str, "type[AbstractEvaluation]"] = {}


class Batch(NamedTuple):
    """The arguments of `AbstractEvaluation.updated`."""

    labels: ArrayLike
    predictions: ArrayLike
    mask: ArrayLike | None
    records: Sequence[Any] | None


class AbstractEvaluation(Values, ABC):
    """Base class of evaluations: immutable counts of predictions that can be added.

    The evaluations of parts of a data set add up to the evaluation of the whole. Counts are
    integers, so they are the same for any grouping of the data. Sums of real numbers are float64,
    equal up to rounding (see `accumulators`). An instance without data carries only the options;
    executors start from it.

    A subclass in this package is a frozen dataclass. Its fields are options, column names
    (`_names_key`) and counted state (`checks.state`). It defines `_counted` and `_report`.
    A subclass outside this package overrides `updated`, `__add__`, `to_dict`, `from_dict`,
    `examples` and `plot`.

    Attributes:
        name: value of `"name"` in `to_dict`.
    """

    __slots__ = ()

    name: ClassVar[str]
    _names_key: ClassVar[str] = ""  # field of the column names; "" for none
    _columns: ClassVar[str] = "outputs"
    _required: ClassVar[tuple[str, ...] | None] = None  # keys of `from_dict`; None: all fields
    _shown: ClassVar[int] = 20  # most rows of a table shown by default

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its `name` for `AbstractEvaluation.from_dict`."""
        super().__init_subclass__(**options)
        if "name" in cls.__dict__:
            _KINDS[cls.name] = cls

    @classmethod
    def from_predictions(
        cls,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
        **options: Any,
    ) -> Self:
        """Evaluate rows; equivalent to `cls(**options).updated(...)`.

        Raises:
            DataError: if the data is invalid; the message names the row.
            ConfigurationError: if an option is invalid.
        """
        return cls(**options).updated(labels, predictions, mask=mask, records=records)

    def updated(
        self,
        labels: ArrayLike,
        predictions: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        records: Sequence[Any] | None = None,
    ) -> Self:
        """Return this evaluation with a batch added; the instance does not change.

        Args:
            labels: actual values, (n, ...); each class documents its shapes.
            predictions: outputs of the network, (n, ...).
            mask: (n,), or (n, T) per step; rows where it is 0 are ignored.
            records: n JSON-serializable names of the examples, for evaluations that keep examples.

        Raises:
            DataError: if shapes do not match or an unmasked value is invalid, such as NaN; the
                message names the row.
        """
        return self + self._counted(Batch(labels, predictions, mask, records))

    def _counted(self, batch: Batch) -> Self:
        """Evaluate one batch with the options of this evaluation, without column names."""
        raise NotImplementedError(f"{type(self).__name__} must define `updated` or `_counted`.")

    @property
    @abstractmethod
    def examples(self) -> int:
        """Number of rows counted: examples, or their time steps."""

    def _merged(self, other: Any) -> Self:
        """Add the state of an evaluation with the same options and number of columns."""
        both = {
            key: _added(getattr(self, key), getattr(other, key)) for key in self._keys(state=True)
        }
        return replace(self, **both)  # pyright: ignore[reportArgumentType]

    @classmethod
    def _keys(cls, *, state: bool) -> list[str]:
        """Return the names of the state fields, or of the options."""
        declared: Any = cls
        found = [f for f in fields(declared) if f.compare and f.name != cls._names_key]
        return [f.name for f in found if ("state" in f.metadata) == state]

    def _report(self, most: int) -> Report:
        """Return the report; tables by column only for at most `most` columns."""
        headline = [(name, number_text(value), "") for name, value in self.headline().items()]
        return Report(
            title=f"{type(self).__name__} of {self.examples:,} examples", headline=headline
        )

    def figures(self) -> "Sequence[Figure | Table]":
        """Figures and tables, each with a caption; empty before any data."""
        return []

    @abstractmethod
    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw with matplotlib.

        Args:
            axes: matplotlib Axes to draw on; default: a new figure.

        Returns:
            The axes.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """

    @property
    def scores_kept(self) -> int | None:
        """Number of scores kept; None if its size does not grow with the number of rows."""
        return None

    @property
    def keeps_records(self) -> bool:
        """Whether it keeps names of examples."""
        return False

    def headline(self) -> dict[str, float]:
        """The most important metrics, as shown by `compare`."""
        return {}

    # Addition and equality

    @property
    def _width(self) -> int:
        """Number of columns; 0 if neither data nor options define it."""
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        """Name of each column: the given one or its number; a single output is "output"."""
        if self._width == 1 and self._columns == "outputs":
            return getattr(self, self._names_key) or ("output",)
        return getattr(self, self._names_key) or tuple(map(str, range(self._width)))

    def named(self, names: Sequence[str]) -> Self:
        """Return this evaluation with output names, unless it has names or these do not match.

        Args:
            names: output names, in order; empty: unknown.
        """
        if not names or self._columns != "outputs" or getattr(self, self._names_key or "name"):
            return self
        evaluation: Any = self  # every evaluation is a dataclass
        try:
            return replace(evaluation, **{self._names_key: tuple(names)})
        except ConfigurationError:  # options of each output are for another number of outputs
            return self

    def _check_names(self) -> None:
        """Store the names as a tuple; raise ConfigurationError unless each column has one."""
        names = checked_names(self._names_key, getattr(self, self._names_key))
        if names is not None and self._width and len(names) != self._width:
            raise ConfigurationError(
                f"`{self._names_key}` must have one name for each of the {self._columns}. "
                f"Received: {len(names)} names for {self._width} {self._columns}."
            )
        object.__setattr__(self, self._names_key, names)

    def __add__(self, other: Any) -> Self:
        """Return the evaluation of both sets of data together.

        Raises:
            DataError: if the options, the numbers of columns or their names differ.
        """
        if type(other) is not type(self):
            return NotImplemented
        keys = self._keys(state=False)
        ours, theirs = ({key: getattr(e, key) for key in keys} for e in (self, other))
        if ours != theirs:
            raise DataError(
                "only evaluations with the same options can be added. "
                f"Received: {plain(ours)} and {plain(theirs)}."
            )
        names, others = (getattr(e, self._names_key, None) for e in (self, other))
        if names and others and names != others:
            raise DataError(
                f"only evaluations of the same {self._columns} can be added. "
                f"Received: {list(names)} and {list(others)}."
            )
        if 0 not in (self._width, other._width) and self._width != other._width:
            raise DataError(
                f"only evaluations of the same number of {self._columns} can be added. "
                f"Received: {self._width} and {other._width} {self._columns}."
            )
        both = self._merged(other) if self._width and other._width else None
        found: Any = both or (self if self._width else other)
        return replace(found, **{self._names_key: names or others}) if self._names_key else found

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Return all counts as plain JSON values; `from_dict` is the inverse."""
        return {"name": self.name, **plain(self._state())}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """Restore an evaluation from `to_dict`; the result can be added to others.

        `AbstractEvaluation` restores one of any kind.

        Raises:
            DataError: if `values` do not describe such an evaluation.

        Example:
            >>> AbstractEvaluation.from_dict({"name": "evaluation", "confusion": [[3, 1], [0, 2]]})
            Evaluation(6 examples, 2 classes, accuracy=0.8333)
        """
        if cls is AbstractEvaluation:
            kind: Any = _kind_named(values.get("name") if isinstance(values, Mapping) else None)
            return kind.from_dict(values)
        keys = [cls._names_key, *cls._keys(state=False), *cls._keys(state=True)]
        cls._check_keys(values, *(filter(None, keys) if cls._required is None else cls._required))
        return super().from_dict(values)

    @classmethod
    def _check_keys(cls, values: Any, *keys: str) -> None:
        """Raise DataError unless `values` is of this kind and has `keys`."""
        found: Mapping[str, Any] = values if isinstance(values, Mapping) else {}
        missing = [key for key in keys if key not in found]
        if found.get("name") != cls.name or missing:
            raise DataError(
                f'{cls.__name__}.from_dict needs a dict with "name": "{cls.name}" and '
                f"{', '.join(map(repr, keys))}. Received: name={found.get('name')!r} with "
                f"{sorted(found)}."
            )

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Restore an evaluation from `to_json`; `AbstractEvaluation` restores one of any kind.

        Raises:
            DataError: if `text` is not JSON of such an evaluation.
        """
        return cls.from_dict(_parsed(text))

    # Reports

    def summary(self, *, max_rows: int | None = None) -> str:
        """Return a report for a terminal.

        Args:
            max_rows: omit tables by class or output with more rows than this; a regression shows
                the outputs with the largest errors. Default None: 20, or 50 for binary outputs.
        """
        return self._report(self._shown if max_rows is None else max_rows).text()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self._report(self._shown).html()

    def _headlines(self, left_out: Mapping[str, int] | None = None) -> list[tuple[str, str, str]]:
        """Return the headline of a report: name, value and note of each metric."""
        found: list[tuple[str, str, str]] = []
        for name, value in self.headline().items():
            out = (left_out or {}).get(name, 0)
            note = f"(without {out} of {self._width} {self._columns}: 0/0)" if out else ""
            found.append((name, number_text(value), note))
        return found


def _kind_named(name: Any) -> type[AbstractEvaluation]:
    """Return the class with this name in JSON."""
    package = sys.modules["sparkwright.evaluation"]
    for public in dir(package):  # imports all classes, which registers them
        getattr(package, public)
    if not isinstance(name, str) or name not in _KINDS:
        raise DataError(
            f"an evaluation must be a dict with a `name` of {', '.join(map(repr, sorted(_KINDS)))}."
            f" Received: name={name!r:.80}."
        )
    return _KINDS[name]


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return None if one is None else one + other


def _parsed(text: str | bytes) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"an evaluation must be JSON. Received: {text[:40]!r}: {error}.") from None
