"""What a look at data found, as a plain value."""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from sparkwright.data._moments import Moments
from sparkwright.data._sources._data_source import DataSource
from sparkwright.data._wording import clipped

ColumnKind = Literal["integer", "number", "text", "array", "empty"]
# Of the values that are there, so many must be numbers for the others to be mistakes.
_NUMBERS = 0.8
# Bad lines may be missing in between.
_COUNTING = 0.95
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
        distinct: how many different ones.
        most_frequent: these and how often, at most five.
        mean: of a column of numbers, as the next three; else None.
        std: of the population.
        minimum: of the finite ones.
        maximum: likewise.
        histogram: how many numbers fall into each of twelve equal bins from minimum to maximum.
        infinite: numbers that are infinite.
        wrong: values that are no numbers, in a column of numbers.
        first_wrong: row (from 0) and text of the first of them.
        first_missing: row of the first missing value.
        first_infinite: row of the first infinite one.
        is_counting: whether it only counts the rows up.
        shape: of each array, in a column of arrays.
        decimal_commas: values of a column of text that are numbers with a decimal comma.
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
    infinite: int = 0
    wrong: int = 0
    first_wrong: tuple[int, str] | None = None
    first_missing: int | None = None
    first_infinite: int | None = None
    is_counting: bool = False
    shape: tuple[int, ...] | None = None
    decimal_commas: int = 0

    @property
    def is_number(self) -> bool:
        """Whether it holds numbers."""
        return self.kind in ("integer", "number")

    @property
    def has_decimal_commas(self) -> bool:
        """Whether most of its values are numbers with a decimal comma, which nobody reads."""
        return 2 * self.decimal_commas > self.count

    @property
    def is_constant(self) -> bool:
        """Whether all its values are the same, and there are several."""
        return self.distinct == 1 and self.count > 1


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
    """What a column of texts says; None stands for a missing value.

    Example:
        >>> look = look_at("age", ["31", "40", None, "old", "28", "35", "36"])
        >>> look.kind, look.mean, look.missing, look.first_wrong
        ('integer', 34.0, 1, (3, 'old'))
    """
    numbers: list[float] = []
    rows: list[int] = []
    wrong: list[tuple[int, str]] = []
    missing: list[int] = []
    counts: Counter[str] = Counter()
    for row, text in enumerate(values):
        number = None if text is None else number_of(text)
        # NaN counts as missing, as the readers have it.
        if text is None or (number is not None and math.isnan(number)):
            missing.append(row)
            continue
        counts[text] += 1
        if number is None:
            wrong.append((row, text))
        else:
            numbers.append(number)
            rows.append(row)
    present = len(numbers) + len(wrong)
    is_number = present > 0 and len(numbers) >= _NUMBERS * present
    found: dict[str, Any] = _of_numbers(numbers, rows) if is_number else {}
    kind: ColumnKind = "empty" if not present else "text"
    if is_number:
        whole = all(number.is_integer() for number in numbers if math.isfinite(number))
        kind = "integer" if whole else "number"
    return ColumnLook(
        name=name,
        kind=kind,
        count=present,
        missing=len(missing),
        distinct=len(counts),
        most_frequent=tuple(counts.most_common(_MOST_FREQUENT)),
        first_missing=missing[0] if missing else None,
        wrong=len(wrong) if is_number else 0,
        first_wrong=wrong[0] if is_number and wrong else None,
        decimal_commas=0 if is_number else _decimal_commas(counts),
        **found,
    )


def _decimal_commas(counts: Mapping[str, int]) -> int:
    return sum(n for text, n in counts.items() if _DECIMAL_COMMA.fullmatch(text.strip(" \t")))


def _of_numbers(numbers: Sequence[float], rows: Sequence[int]) -> dict[str, Any]:
    every = np.array(numbers)
    is_finite = np.isfinite(every)
    finite = every[is_finite]
    infinite = np.flatnonzero(~is_finite)
    found: dict[str, Any] = {
        "infinite": int(infinite.size),
        "first_infinite": rows[int(infinite[0])] if infinite.size else None,
        "is_counting": finite.size > 2 and bool((np.diff(finite) == 1).mean() > _COUNTING),
    }
    if not finite.size:
        return found
    moments = Moments.of(finite[:, None])
    low, high = float(moments.minimum[0]), float(moments.maximum[0])
    spread = high - low
    if 0 < spread < math.inf:
        # Scaled first: bins of a huge range overflow, those of a tiny one have no width.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            places = np.clip((finite - low) / spread * _BINS, 0, _BINS - 1).astype(int)
        found["histogram"] = tuple(np.bincount(places, minlength=_BINS).tolist())
    return found | {
        "mean": float(moments.mean[0]),
        "std": float(moments.std[0]),
        "minimum": low,
        "maximum": high,
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class DataProblem:
    """Something that is wrong or odd.

    Attributes:
        severity: "error": loading or training would fail. "warning": look at it.
        sentence: what, where, and what to do.
        column: the column that it is about; empty: none.
        can_skip: whether `on_error="skip"` leaves out what has it.
    """

    severity: Literal["error", "warning"]
    sentence: str
    column: str = ""
    can_skip: bool = False

    @classmethod
    def error(cls, sentence: str, column: str = "", *, can_skip: bool = False) -> "DataProblem":
        """Something that keeps the data from being loaded or trained on."""
        return cls(severity="error", sentence=sentence, column=column, can_skip=can_skip)

    @classmethod
    def warning(cls, sentence: str, column: str = "") -> "DataProblem":
        """Something to look at."""
        return cls(severity="warning", sentence=sentence, column=column)


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
        >>> DataPreview(source=DataSource(format="csv", url="a.csv"), looked_at=9, in_all=9)
        <DataPreview of csv 'a.csv': all 9 rows, 0 problems>
    """

    source: DataSource
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
        several = ((len(self.columns), "column"), (self.class_count or 0, "class"))
        found = [_counted(count, word) for count, word in several if count]
        problems = _counted(len(self.problems), "problem")
        told = ", ".join([self.extent, *found, problems])
        return f"<DataPreview of {self.source.format}{url}: {told}>"

    @property
    def problem(self) -> str | None:
        """The first thing that keeps it from being loaded; None: nothing that was seen."""
        return next((p.sentence for p in self.problems if p.severity == "error"), None)

    @property
    def extent(self) -> str:
        """How much was looked at, in words.

        Example:
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


def _counted(count: int, word: str) -> str:
    ending = "" if count == 1 else "es" if word.endswith("s") else "s"
    return f"{count:,} {word}{ending}"


def rounded(count: int) -> int:
    """Two digits are all that an estimate is worth.

    Example:
        >>> rounded(120_400), rounded(87)
        (120000, 87)
    """
    digits = max(0, len(str(count)) - 2)
    return round(count / 10**digits) * 10**digits
