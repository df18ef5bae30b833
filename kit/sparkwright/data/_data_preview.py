"""Data previews as plain values: columns, problems, thumbnails. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparkwright.data._csv_format import number_of
from sparkwright.data.wording import clipped

if TYPE_CHECKING:
    from sparkwright.data.sources import DataSource

ColumnKind = Literal["integer", "number", "text", "array", "empty"]
# A column with at least this share of numbers is numeric; its other values are errors.
_NUMBERS = 0.8
_MOST_FREQUENT = 5
_BINS = 12
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(\.[0-9]{3})*,[0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnPreview:
    """Summary of a column in a preview.

    Attributes:
        name: name of the column.
        kind: "integer", "number", "text", "array" or "empty" (no values).
        count: number of values.
        missing: number of missing values.
        distinct: number of distinct values.
        most_frequent: up to five (value, count), the most frequent first.
        mean: mean of the finite numbers; None for columns that are not numeric.
        std: population standard deviation, or None.
        minimum: smallest finite number, or None.
        maximum: largest finite number, or None.
        histogram: counts in twelve equal bins from minimum to maximum; empty if not available.
        shape: shape of each array in a column of arrays, else None.
        has_decimal_commas: whether most values have a decimal comma and are therefore read as text.
    """

    name: str
    kind: ColumnKind
    count: int = 0
    missing: int = 0
    distinct: int = 0
    most_frequent: tuple[tuple[str, int], ...] = ()
    mean: float | None = None
    std: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    histogram: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None
    has_decimal_commas: bool = False

    @property
    def is_number(self) -> bool:
        """Whether the column is numeric."""
        return self.kind in ("integer", "number")


def summarize_column(name: str, values: Sequence[str | None]) -> ColumnPreview:
    """Summarize a column of strings; None and NaN are missing values."""
    counts = Counter(text for text in values if text is not None)
    numbers: dict[str, float] = {}
    for text in list(counts):
        number = number_of(text)
        if number is not None and math.isnan(number):
            del counts[text]
        elif number is not None:
            numbers[text] = number
    present = counts.total()
    weights = np.array([counts[text] for text in numbers], np.int64)
    is_number = present > 0 and weights.sum() >= _NUMBERS * present
    kind: ColumnKind = "text" if present else "empty"
    found: dict[str, Any] = {}
    if is_number:
        every = np.array(list(numbers.values()))
        finite = np.isfinite(every)
        found = _of_numbers(every[finite], weights[finite])
        kind = "integer" if (every[finite] % 1 == 0).all() else "number"
    else:
        commas = (n for text, n in counts.items() if _DECIMAL_COMMA.fullmatch(text.strip(" \t")))
        found = {"has_decimal_commas": 2 * sum(commas) > present}
    return ColumnPreview(
        name=name,
        kind=kind,
        count=present,
        missing=len(values) - present,
        distinct=len(counts),
        most_frequent=tuple(counts.most_common(_MOST_FREQUENT)),
        **found,
    )


def _of_numbers(numbers: Any, counts: Any) -> dict[str, Any]:
    """Return statistics of distinct finite numbers with their counts."""
    if not numbers.size:
        return {}
    low, high = float(numbers.min()), float(numbers.max())
    # The bin width overflows for a huge range, and is zero for a tiny one.
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        mean = np.average(numbers, weights=counts)
        std = np.sqrt(np.average((numbers - mean) ** 2, weights=counts))
        places = np.clip((numbers - low) / (high - low) * _BINS, 0, _BINS - 1)
    found: dict[str, Any] = {}
    if 0 < high - low < math.inf:
        bins = np.bincount(places.astype(int), weights=counts, minlength=_BINS)
        found["histogram"] = tuple(bins.astype(int).tolist())
    return found | {"mean": float(mean), "std": float(std), "minimum": low, "maximum": high}


@dataclass(frozen=True, kw_only=True, slots=True)
class DataProblem:
    """A problem found in a preview.

    Attributes:
        severity: "error" if loading or training would fail, else "warning".
        sentence: description, location and remedy.
        code: identifies the kind of problem, such as "missing value"; empty: no known fix.
        column: the affected column; empty: none.
        received: the invalid text; empty: unknown.
        count: number of rows in the preview that have the problem.
        can_skip: whether `on_error="skip"` skips items with this problem.
    """

    severity: Literal["error", "warning"]
    sentence: str
    code: str = ""
    column: str = ""
    received: str = ""
    count: int = 1
    can_skip: bool = False

    @classmethod
    def error(cls, sentence: str, **about: Any) -> "DataProblem":
        """Create a problem that prevents loading or training."""
        return cls(severity="error", sentence=sentence, **about)

    @classmethod
    def warning(cls, sentence: str, **about: Any) -> "DataProblem":
        """Create a problem that does not prevent loading or training."""
        return cls(severity="warning", sentence=sentence, **about)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageThumbnail:
    """A thumbnail of one image.

    Attributes:
        png: the thumbnail as PNG.
        label: the image's class, or empty.
        name: name of the file.
        size: (height, width) of the original image, in pixels.
    """

    png: bytes
    label: str
    name: str
    size: tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPreview:
    """A preview of a data source, computed from its first items.

    Attributes:
        source: the data source.
        unit: name of one item: "row", "image", "sequence", "example".
        looked_at: number of items used for the statistics and problems.
        in_all: total number of items; None: unknown.
        is_estimate: whether `in_all` is estimated from file sizes.
        columns: summaries of the columns of a table.
        rows: the first rows, as text; each as long as `columns`.
        images: thumbnails, if the items are images.
        labels: (class, count) among the items used, the most frequent first.
        class_count: estimated number of classes; None: no classes, or unknown.
        feature_shape: shape of the features of one example; None: unknown.
        files: number of files; None: unknown.
        size_bytes: total size of the files; None: unknown.
        problems: problems found, errors first.
        note: what could not be previewed; may be empty.

    Example:
        >>> from sparkwright.data import DataSource
        >>> DataPreview(source=DataSource(format="csv", url="a.csv"), looked_at=9, in_all=9)
        <DataPreview of csv 'a.csv': all 9 rows, 0 columns, 0 problems>
    """

    source: "DataSource"
    unit: str = "row"
    looked_at: int = 0
    in_all: int | None = None
    is_estimate: bool = False
    columns: tuple[ColumnPreview, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    images: tuple[ImageThumbnail, ...] = ()
    labels: tuple[tuple[str, int], ...] = ()
    class_count: int | None = None
    feature_shape: tuple[int, ...] | None = None
    files: int | None = None
    size_bytes: int | None = None
    problems: tuple[DataProblem, ...] = field(default_factory=tuple)
    note: str = ""

    def __repr__(self) -> str:
        """Return a one-line summary."""
        url = f" {clipped(self.source.url)!r}" if self.source.url else ""
        several = (("columns", self.columns), ("problems", self.problems))
        counts = ", ".join(f"{len(found)} {what}" for what, found in several)
        return f"<DataPreview of {self.source.format}{url}: {self.extent}, {counts}>"

    @property
    def problem(self) -> str | None:
        """The first problem that prevents loading; None if none was found."""
        return next((p.sentence for p in self.problems if p.severity == "error"), None)

    @property
    def extent(self) -> str:
        """The number of items used, as text.

        Example:
            >>> from sparkwright.data import DataSource
            >>> DataPreview(
            ...     source=DataSource(), looked_at=1000, in_all=120_400, is_estimate=True
            ... ).extent
            'first 1,000 of about 120,000 rows'
        """
        several = f"{self.unit}s"
        # Images are sampled evenly from all files, so they are not the first ones.
        first = "" if self.unit == "image" else "first "
        if self.in_all is None:
            return f"{first}{self.looked_at:,} {self.unit if self.looked_at == 1 else several}"
        if self.looked_at >= self.in_all and not self.is_estimate:
            unit = self.unit if self.in_all == 1 else several
            return f"all {self.in_all:,} {unit}" if self.in_all > 1 else f"{self.in_all:,} {unit}"
        # An estimate has two significant digits.
        about = (
            f"about {int(float(f'{self.in_all:.2g}')):,}"
            if self.is_estimate
            else f"{self.in_all:,}"
        )
        return f"{first}{self.looked_at:,} of {about} {several}"
