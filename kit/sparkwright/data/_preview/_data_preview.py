"""What a look at data found, as a plain value."""

from dataclasses import dataclass, field
from typing import Literal

from sparkwright.data._sources._data_source import DataSource
from sparkwright.data._wording import clipped

from ._column_look import ColumnLook


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
