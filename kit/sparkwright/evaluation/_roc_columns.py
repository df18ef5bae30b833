"""What ROCs of several outputs and of several classes share: one `ROC` for each column."""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self, get_args

from sparkwright.errors import ConfigurationError, DataError

from ._abstract import AbstractEvaluation
from ._binary_rates import Average
from ._output_names import checked_names, number_of
from ._reading import reading
from ._roc import ROC
from ._roc_digest import ROCDigest
from ._roc_plots import MOST_CURVES, PLOT_POINTS, draw_precision_recall, draw_roc
from ._tables import aligned, html_report, html_row, html_table
from ._threshold_counts import whole_number

_MOST_ROWS = 20  # of a table that is shown without being asked for
_HEAD = ["", "positive", "negative", "AUC", "AUPRC"]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RocColumns(AbstractEvaluation):
    """One `ROC` for each of several columns.

    Attributes:
        thresholds: of each `ROC`: 0, the default: exact.
        rocs: one for each column; none before any data. Exact ones of very many rows, evaluated
            on a cluster, are digests, which cannot be added to, so neither can this.
        rows: rows counted.
    """

    _columns: ClassVar[str] = "outputs"
    _names_key: ClassVar[str] = "names"

    thresholds: int = 0
    rocs: tuple[ROC | ROCDigest, ...] = field(default=(), kw_only=True)
    rows: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        """Check the options.

        Raises:
            ConfigurationError: if `thresholds` is wrong, or the names are not unique, or not one
                for each column.
        """
        ROC(self.thresholds)
        names = checked_names(self._names_key, getattr(self, self._names_key))
        if names is not None and self.rocs and len(names) != len(self.rocs):
            raise ConfigurationError(
                f"`{self._names_key}` must name all {self._columns}. "
                f"Received: {len(names)} names for {len(self.rocs)} {self._columns}."
            )
        object.__setattr__(self, self._names_key, names)

    @property
    @abstractmethod
    def output_names(self) -> tuple[str, ...]:
        """A name for each column: the given one or its number."""

    @property
    def examples(self) -> int:
        """Rows counted: examples, or their time steps."""
        return self.rows

    @property
    def keeps_rows(self) -> bool:
        """Whether its size grows with the rows counted: if it is exact."""
        return self.thresholds == 0

    def __add__(self, other: Self) -> Self:
        """The evaluation of both sets of rows together, exactly.

        Raises:
            DataError: if options or numbers of columns differ.
        """
        ours, theirs = self._options(), getattr(other, "_options", dict[str, Any])()
        if type(other) is not type(self) or ours != theirs:
            raise DataError(
                f"only {type(self).__name__}s of the same options can be added. "
                f"Received: {ours} and {theirs or repr(other)}."
            )
        if self.rocs and other.rocs and len(self.rocs) != len(other.rocs):
            raise DataError(
                f"only evaluations of equally many {self._columns} can be added. "
                f"Received: {len(self.rocs)} and {len(other.rocs)} {self._columns}."
            )
        if not self.rocs or not other.rocs:
            return self if not other.rocs else other
        rocs = tuple(
            (ours + theirs)  # pyright: ignore[reportOperatorIssue] # digests say why they cannot
            for ours, theirs in zip(self.rocs, other.rocs, strict=True)
        )
        return replace(self, rocs=rocs, rows=self.rows + other.rows)

    def __eq__(self, other: object) -> bool:
        """The same options, and the same scores or counts."""
        return (
            isinstance(other, RocColumns)
            and type(other) is type(self)
            and self._options() == other._options()
            and (self.rows, self.rocs) == (other.rows, other.rocs)
        )

    def roc(self, of: int | str) -> ROC | ROCDigest:
        """The `ROC` of one column, by number or name.

        Raises:
            ConfigurationError: if there is no such column.
        """
        number = number_of(of, self.output_names)
        return self.rocs[number] if self.rocs else ROC(self.thresholds)

    def left_out(self) -> tuple[str, ...]:
        """Names of the columns without positives or negatives; macro averages leave them out."""
        return tuple(
            name
            for name, roc in zip(self.output_names, self.rocs, strict=False)
            if not (roc.positives and roc.negatives)
        )

    def auc(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Area under the ROC curve.

        Args:
            average: "macro": mean over the columns, without those that lack positives or
                negatives; "micro": of all columns' scores together, as if they were one.
            of: one column, by number or name, instead of an average.

        Returns:
            From 0 to 1; 0.5 without positives or without negatives.

        Raises:
            ConfigurationError: if there is no such column or average.
        """
        return self._area(lambda roc: roc.auc, average, of)

    def auprc(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Area under the lines of the precision-recall curve; 0 without positives.

        Arguments as in `auc`.
        """
        return self._area(lambda roc: roc.auprc, average, of)

    def average_precision(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Area under the steps of the precision-recall curve; 0 without positives.

        Arguments as in `auc`.
        """
        return self._area(lambda roc: roc.average_precision, average, of)

    # Plots and reports

    def plot(self, *, axes: Any | None = None) -> Any:
        """Draw the ROC curves; see `AbstractEvaluation.plot`."""
        return self.plot_roc(axes=axes)

    def plot_roc(self, *, axes: Any | None = None) -> Any:
        """Draw a ROC curve for each column, or the mean of more than 10 and their spread.

        Columns without positives or without negatives have no curve.
        """
        curves = [
            (
                f"{name}  {roc.auc:.4f}" if len(self.rocs) <= MOST_CURVES else name,
                roc.curve(PLOT_POINTS),
            )
            for name, roc in self._drawn()
        ]
        title = f"ROC, mean AUC {self.auc():.4f}"
        return draw_roc(curves, title=title, axes=axes, what=self._columns)

    def plot_precision_recall(self, *, axes: Any | None = None) -> Any:
        """Draw a precision-recall curve for each column; as `plot_roc`."""
        curves = [
            (
                f"{name}  {roc.auprc:.4f}" if len(self.rocs) <= MOST_CURVES else name,
                roc.precision_recall_curve(PLOT_POINTS),
            )
            for name, roc in self._drawn()
        ]
        title = f"Precision and recall, mean AUPRC {self.auprc():.4f}"
        return draw_precision_recall(
            curves, guessing=None, title=title, axes=axes, what=self._columns
        )

    def headline(self) -> dict[str, float]:
        """Areas, averaged over the columns."""
        return {
            "AUC (macro)": self.auc(),
            "AUPRC (macro)": self.auprc(),
            "average precision (macro)": self.average_precision(),
        }

    def summary(self, *, max_outputs: int = _MOST_ROWS) -> str:
        """A report for a terminal.

        Args:
            max_outputs: of more columns, there is no table.
        """
        lines = [f"{name:<27}{value}{note}" for name, value, note in self._notes()]
        if 0 < len(self.rocs) <= max_outputs:
            lines += ["", *aligned([_HEAD, *self._table()])]
        return "\n".join([self._title(), "", *lines])

    def _repr_html_(self) -> str:
        rows = [html_row(name, [value], note=note) for name, value, note in self._notes()]
        parts = [html_table([], rows)]
        if 0 < len(self.rocs) <= _MOST_ROWS:
            parts.append(html_table(_HEAD, [html_row(row[0], row[1:]) for row in self._table()]))
        return html_report(self._title(), *parts)

    def __repr__(self) -> str:
        counted = f"{self.rows} examples, {len(self.rocs)} {self._columns}"
        return f"{type(self).__name__}({counted}, {self._kind()})"

    # JSON

    def to_dict(self) -> dict[str, Any]:
        """Everything that was counted, as plain JSON values."""
        names = getattr(self, self._names_key)
        return {
            "name": self.name,
            "thresholds": self.thresholds,
            self._names_key: None if names is None else list(names),
            "rows": self.rows,
            "rocs": [roc.to_dict() for roc in self.rocs],
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what it returns can be added to others as before.

        Raises:
            DataError: if `values` is no such evaluation.
        """
        cls._check_name(values, "thresholds", cls._names_key, "rows", "rocs")
        names, rocs, rows = values[cls._names_key], values["rocs"], values["rows"]
        if not isinstance(rocs, list) or not all(isinstance(roc, dict) for roc in rocs):
            raise DataError(f"`rocs` must be a list of ROCs. Received: {rocs!r:.60}.")
        if names is not None and not isinstance(names, list):
            raise DataError(f"`{cls._names_key}` must be a list. Received: {names!r:.60}.")
        read = tuple(_read(roc) for roc in rocs)
        counted = [roc.examples for roc in read]
        whole_number(rows, "rows")
        if not max(counted, default=0) <= rows <= sum(counted) or any(
            (0 if isinstance(roc, ROCDigest) else roc.thresholds) != values["thresholds"]
            for roc in read
        ):
            raise DataError(
                "ROCs of one evaluation must be of the same thresholds and rows. Received: "
                f"{rows} rows and ROCs of {counted[:_MOST_ROWS]}."
            )
        with reading(cls.__name__):
            return cls(values["thresholds"], **{cls._names_key: names}, rocs=read, rows=rows)

    def _options(self) -> dict[str, Any]:
        return {
            "thresholds": self.thresholds,
            self._names_key: getattr(self, self._names_key),
        }

    def _area(
        self, area: Callable[[ROC | ROCDigest], float], average: str, of: int | str | None
    ) -> float:
        if average not in get_args(Average):
            raise ConfigurationError(
                f"`average` must be 'macro' or 'micro'. Received: average={average!r}."
            )
        if of is not None:
            return area(self.roc(of))
        if average == "micro":
            whole: Any = ROC(self.thresholds)
            for roc in self.rocs:
                whole = whole + roc if isinstance(roc, ROC) else roc + whole
            return area(whole)
        found = [area(roc) for roc in self.rocs if roc.positives and roc.negatives]
        return sum(found) / len(found) if found else area(ROC(self.thresholds))

    def _counted(self, rows: int, sides: Iterable[tuple[Any, Any]]) -> Self:
        """This with scores of (positives, negatives) counted in, for each column."""
        rocs = tuple(ROC(self.thresholds).including(*side) for side in sides)
        return self + replace(self, rocs=rocs if rows else (), rows=rows)

    def _drawn(self) -> list[tuple[str, ROC | ROCDigest]]:
        return [
            (name, roc)
            for name, roc in zip(self.output_names, self.rocs, strict=False)
            if roc.positives and roc.negatives
        ]

    def _kind(self) -> str:
        return f"{self.thresholds} thresholds" if self.thresholds else "exact"

    def _title(self) -> str:
        return f"ROC of {self.rows:,} examples, {len(self.rocs)} {self._columns} ({self._kind()})"

    def _notes(self) -> list[tuple[str, str, str]]:
        """Headlines, with a note on what they leave out."""
        out = len(self.left_out())
        note = f"  (without {out} of {len(self.rocs)} {self._columns}: 0/0)" if out else ""
        return [(name, f"{value:.4f}", note) for name, value in self.headline().items()]

    def _table(self) -> list[list[str]]:
        return [
            [name, str(roc.positives), str(roc.negatives), f"{roc.auc:.4f}", f"{roc.auprc:.4f}"]
            for name, roc in zip(self.output_names, self.rocs, strict=False)
        ]


def _read(values: Mapping[str, Any]) -> ROC | ROCDigest:
    kind = ROCDigest if values.get("name") == ROCDigest.name else ROC
    return kind.from_dict(values)
