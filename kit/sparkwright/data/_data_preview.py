"""The result of a look at data, as plain values: columns, problems, pictures. Pure."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sparkwright.data.wording import clipped

if TYPE_CHECKING:
    from sparkwright.data.sources import DataSource

ColumnKind = Literal["integer", "number", "text", "array", "empty"]
# If so many of the present values are numbers, the others are mistakes.
_NUMBERS = 0.8
_MOST_FREQUENT = 5
_BINS = 12
_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]+(\.[0-9]{3})*,[0-9]+")


@dataclass(frozen=True, kw_only=True, slots=True)
class ColumnLook:
    """What was seen of a column.

    Attributes:
        name: of the column.
        kind: "integer", "number", "text", "array" or "empty" (no value at all).
        count: values that are there.
        missing: values that are not.
        distinct: number of different values.
        most_frequent: at most five values, each with its count.
        mean: of the finite numbers of a column of numbers, as the next three; else None.
        std: of the population.
        minimum: the least.
        maximum: the largest.
        histogram: how many numbers fall into each of twelve equal bins from minimum to maximum.
        shape: of each array, in a column of arrays.
        has_decimal_commas: whether most values are numbers with a decimal comma, which are read as
            text.
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
        """Whether it holds numbers."""
        return self.kind in ("integer", "number")


def number_of(text: str) -> float | None:
    """`text` as a number, as the reader of CSV files takes it; None if it is none.

    Example:
        >>> number_of(" 1e3 "), number_of("1_000"), number_of("n/a")
        (1000.0, None, None)
    """
    given = text.strip(" \t")
    if not given.isascii() or "_" in given or given != given.strip():
        return None
    try:
        return float(given)
    except ValueError:
        return None


def look_at(name: str, values: Sequence[str | None]) -> ColumnLook:
    """Summarize a column of texts; None and NaN are missing values.

    Example:
        >>> look = look_at("age", ["31", "40", None, "old", "28", "35", "36"])
        >>> look.kind, look.mean, look.missing
        ('integer', 34.0, 1)
    """
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
    return ColumnLook(
        name=name,
        kind=kind,
        count=present,
        missing=len(values) - present,
        distinct=len(counts),
        most_frequent=tuple(counts.most_common(_MOST_FREQUENT)),
        **found,
    )


def _of_numbers(numbers: Any, counts: Any) -> dict[str, Any]:
    """Statistics of finite numbers, each of which occurs some times."""
    if not numbers.size:
        return {}
    low, high = float(numbers.min()), float(numbers.max())
    # Bins of a huge range overflow, those of a tiny one have no width.
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
    """Something that is wrong or odd.

    Attributes:
        severity: "error": loading or training would fail. "warning": look at it.
        sentence: what, where, and what to do.
        code: identifies the kind of problem, such as "missing value"; empty: no known fix.
        column: the column that it is about; empty: none.
        received: the invalid text; empty: unknown.
        count: number of rows in the preview that have the problem.
        can_skip: whether `on_error="skip"` leaves out what has it.
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
        """Something that keeps the data from being loaded or trained on."""
        return cls(severity="error", sentence=sentence, **about)

    @classmethod
    def warning(cls, sentence: str, **about: Any) -> "DataProblem":
        """Something to look at."""
        return cls(severity="warning", sentence=sentence, **about)


@dataclass(frozen=True, kw_only=True, slots=True)
class ImageLook:
    """A small picture of one image.

    Attributes:
        png: the picture, encoded.
        label: its class, or empty.
        name: of the file.
        size: (height, width) of the file's image, in pixels.
    """

    png: bytes
    label: str
    name: str
    size: tuple[int, int]


@dataclass(frozen=True, kw_only=True, slots=True)
class DataPreview:
    """The beginning of some data, and what it says about the rest.

    Attributes:
        source: which data.
        unit: what one item is called: "row", "image", "sequence", "example".
        looked_at: how many items the statistics and problems come from.
        in_all: how many there are; None: unknown.
        is_estimate: whether `in_all` is estimated from sizes.
        columns: of tables.
        rows: the first ones, as text; each as long as `columns`.
        images: some, if they are images.
        labels: class -> how often, among what was looked at, the most frequent first.
        class_count: how many classes there seem to be; None: no classes, or unknown.
        feature_shape: of the features of one example; None: unknown.
        files: how many there are; None: unknown.
        size_bytes: of all of them; None: unknown.
        problems: what is wrong or odd, errors first.
        note: a sentence on what could not be looked at; may be empty.

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
    columns: tuple[ColumnLook, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    images: tuple[ImageLook, ...] = ()
    labels: tuple[tuple[str, int], ...] = ()
    class_count: int | None = None
    feature_shape: tuple[int, ...] | None = None
    files: int | None = None
    size_bytes: int | None = None
    problems: tuple[DataProblem, ...] = field(default_factory=tuple)
    note: str = ""

    def __repr__(self) -> str:
        """What was looked at, in one line; the fields hold all of it."""
        url = f" {clipped(self.source.url)!r}" if self.source.url else ""
        several = (("columns", self.columns), ("problems", self.problems))
        counts = ", ".join(f"{len(found)} {what}" for what, found in several)
        return f"<DataPreview of {self.source.format}{url}: {self.extent}, {counts}>"

    @property
    def problem(self) -> str | None:
        """The first thing that keeps it from being loaded; None: nothing that was seen."""
        return next((p.sentence for p in self.problems if p.severity == "error"), None)

    @property
    def extent(self) -> str:
        """How much was looked at, in words.

        Example:
            >>> from sparkwright.data import DataSource
            >>> DataPreview(
            ...     source=DataSource(), looked_at=1000, in_all=120_400, is_estimate=True
            ... ).extent
            'first 1,000 of about 120,000 rows'
        """
        several = f"{self.unit}s"
        # Images are taken evenly from all that there are.
        first = "" if self.unit == "image" else "first "
        if self.in_all is None:
            return f"{first}{self.looked_at:,} {self.unit if self.looked_at == 1 else several}"
        if self.looked_at >= self.in_all and not self.is_estimate:
            unit = self.unit if self.in_all == 1 else several
            return f"all {self.in_all:,} {unit}" if self.in_all > 1 else f"{self.in_all:,} {unit}"
        about = f"about {rounded(self.in_all):,}" if self.is_estimate else f"{self.in_all:,}"
        return f"{first}{self.looked_at:,} of {about} {several}"


def rounded(count: int) -> int:
    """Two digits are all that an estimate is worth.

    Example:
        >>> rounded(120_400), rounded(87)
        (120000, 87)
    """
    digits = max(0, len(str(count)) - 2)
    return round(count / 10**digits) * 10**digits
