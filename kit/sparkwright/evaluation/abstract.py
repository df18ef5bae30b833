"""The interface of all evaluations: values that count predictions and can be added."""

import json
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

# Name in the JSON -> class.
_KINDS: dict[str, "type[AbstractEvaluation]"] = {}


class Batch(NamedTuple):
    """The arguments of `AbstractEvaluation.updated`."""

    labels: ArrayLike
    predictions: ArrayLike
    mask: ArrayLike | None
    records: Sequence[Any] | None


class AbstractEvaluation(Values, ABC):
    """A value that counts predictions; evaluations of parts add up to that of the whole.

    An instance without data is the prototype that executors start from: it carries the options.
    Implementations are immutable dataclasses. Counts are integers, so they are the same for any
    grouping of the data; sums of real numbers are float64, equal up to rounding (see
    `accumulators`).

    A subclass in this package is a dataclass whose fields are options, names of columns
    (`_names_key`) and what was counted (`checks.state`). It declares how a batch is counted
    (`_counted`) and its `_report`; the rest comes from here. A subclass elsewhere overrides
    `updated`, `__add__`, `to_dict` and `from_dict`, `examples` and `plot`.

    Attributes:
        name: the `"name"` of this kind in `to_dict`.
    """

    __slots__ = ()

    name: ClassVar[str]
    _names_key: ClassVar[str] = ""  # field that names the columns; "" for none
    _columns: ClassVar[str] = "outputs"
    _required: ClassVar[tuple[str, ...] | None] = None  # keys of `from_dict`; None: all fields
    _shown: ClassVar[int] = 20  # most rows of a table that is shown without being asked for

    def __init_subclass__(cls, **options: Any) -> None:
        """Register the class under its `name` for `evaluation_from_dict`."""
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
        """The evaluation of some rows: `cls(**options).updated(...)`, which see.

        Raises:
            DataError: if the data does not fit; the message names the row.
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
        """Return this evaluation with a batch added; the instance itself does not change.

        Args:
            labels: actual values, (n, ...); the class says which shapes it takes.
            predictions: outputs of the network, (n, ...), likewise.
            mask: (n,), or (n, T) per step; rows where it is 0 do not count, whatever they hold.
            records: n JSON-able names of the examples, for evaluations that keep some.

        Raises:
            DataError: if shapes do not fit or a value that counts is invalid, such as NaN; the
                message names the row.
        """
        return self + self._counted(Batch(labels, predictions, mask, records))

    def _counted(self, batch: Batch) -> Self:
        """A batch alone, with the options of this evaluation but without names of columns."""
        raise NotImplementedError(f"{type(self).__name__} must define `updated` or `_counted`.")

    @property
    @abstractmethod
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""

    def _merged(self, other: Any) -> Self:
        """Add the state of another one of the same options and number of columns."""
        both = {
            key: _added(getattr(self, key), getattr(other, key)) for key in self._keys(state=True)
        }
        return replace(self, **both)  # pyright: ignore[reportArgumentType]

    @classmethod
    def _keys(cls, *, state: bool) -> list[str]:
        """Names of the fields that hold what was counted, or of the options."""
        declared: Any = cls
        found = [f for f in fields(declared) if f.compare and f.name != cls._names_key]
        return [f.name for f in found if ("state" in f.metadata) == state]

    def _report(self, most: int) -> Report:
        """The report; tables by column only of at most `most` columns."""
        headline = [(name, number_text(value), "") for name, value in self.headline().items()]
        return Report(
            title=f"{type(self).__name__} of {self.examples:,} examples", headline=headline
        )

    def figures(self) -> "Sequence[Figure | Table]":
        """What was counted as figures and tables, each with a caption; none before any data."""
        return []

    @abstractmethod
    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw with matplotlib.

        Args:
            axes: the matplotlib Axes to draw on; default None: of a new figure.

        Returns:
            The axes.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """

    @property
    def keeps_rows(self) -> bool:
        """Whether its size grows with the rows counted."""
        return False

    @property
    def scores_kept(self) -> int:
        """Scores that it holds, if it keeps rows."""
        return 0

    @property
    def keeps_records(self) -> bool:
        """Whether it keeps names of examples."""
        return False

    def headline(self) -> dict[str, float]:
        """The most important metrics, which `compare` shows side by side."""
        return {}

    # Addition and equality

    @property
    def _width(self) -> int:
        """Number of columns; 0 if it holds no data and its options do not fix it."""
        return 1

    @property
    def output_names(self) -> tuple[str, ...]:
        """A name for each column: the given one or its number; a single output is "output"."""
        if self._width == 1 and self._columns == "outputs":
            return getattr(self, self._names_key) or ("output",)
        return getattr(self, self._names_key) or tuple(map(str, range(self._width)))

    def named(self, names: Sequence[str]) -> Self:
        """This evaluation with names of its outputs, unless it has names or these do not fit.

        Args:
            names: of the outputs, in their order; empty: not known.
        """
        if not names or self._columns != "outputs" or getattr(self, self._names_key or "name"):
            return self
        evaluation: Any = self  # each is a dataclass
        try:
            return replace(evaluation, **{self._names_key: tuple(names)})
        except ConfigurationError:  # options of each output are for another number of outputs
            return self

    def _check_names(self) -> None:
        """Keep the names as a tuple; raise ConfigurationError unless there is one a column."""
        names = checked_names(self._names_key, getattr(self, self._names_key))
        if names is not None and self._width and len(names) != self._width:
            raise ConfigurationError(
                f"`{self._names_key}` must name all {self._columns}. "
                f"Received: {len(names)} names for {self._width} {self._columns}."
            )
        object.__setattr__(self, self._names_key, names)

    def __add__(self, other: Any) -> Self:
        """The evaluation of both sets of data together.

        Raises:
            DataError: if the two have different options, or numbers or names of columns.
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
        """Everything that was counted, as plain JSON values; `from_dict` is the inverse."""
        return {"name": self.name, **plain(self._state())}

    @classmethod
    def from_dict(cls, values: Any) -> Self:
        """The inverse of `to_dict`; the result can be added to others as before.

        Raises:
            DataError: if `values` are not those of such an evaluation.
        """
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
                f'{cls.__name__} is read from a dict with "name": "{cls.name}" and '
                f"{', '.join(map(repr, keys))}. Received: name={found.get('name')!r} with "
                f"{sorted(found)}."
            )

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`.

        Raises:
            DataError: if `text` is not JSON of such an evaluation.
        """
        return cls.from_dict(_parsed(text))

    # Reports

    def summary(self, *, max_classes: int | None = None, max_outputs: int | None = None) -> str:
        """A report for a terminal.

        Args:
            max_classes: tables by class are left out of more classes; default None: 20.
            max_outputs: tables by output are left out of more outputs; default None: 20, or 50 of
                yes-or-no outputs.
        """
        given = [most for most in (max_classes, max_outputs) if most is not None]
        return self._report(*given or [self._shown]).text()

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        return self._report(self._shown).html()

    def _headlines(self, left_out: Mapping[str, int] | None = None) -> list[tuple[str, str, str]]:
        """The headline for a report."""
        found: list[tuple[str, str, str]] = []
        for name, value in self.headline().items():
            out = (left_out or {}).get(name, 0)
            note = f"(without {out} of {self._width} {self._columns}: 0/0)" if out else ""
            found.append((name, number_text(value), note))
        return found


def evaluation_from_dict(values: Mapping[str, Any]) -> AbstractEvaluation:
    """The evaluation that `to_dict` returned, of any kind.

    Raises:
        DataError: if its `"name"` is unknown, or the rest does not fit.

    Example:
        >>> evaluation_from_dict({"name": "evaluation", "confusion": [[3, 1], [0, 2]]})
        Evaluation(6 examples, 2 classes, accuracy=0.8333)
    """
    name = values.get("name") if isinstance(values, Mapping) else None
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise DataError(
            f"an evaluation must be a dict with a `name` of {', '.join(map(repr, sorted(_KINDS)))}."
            f" Received: name={name!r:.80}."
        )
    return kind.from_dict(values)


def evaluation_from_json(text: str) -> AbstractEvaluation:
    """The evaluation that `to_json` returned, of any kind.

    Raises:
        DataError: if `text` is not JSON of an evaluation.
    """
    return evaluation_from_dict(_parsed(text))


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip(one, other, strict=True))
    return None if one is None else one + other


def _parsed(text: str) -> Any:
    try:
        return strict_json(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"an evaluation must be JSON. Received: {text[:40]!r}: {error}.") from None
