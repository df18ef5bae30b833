"""The models of a folder: search, sort, pages and descriptions. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.storage import ModelInfo
from sparkwright.storage.model_metadata import metrics_text, time_text
from sparkwright_widgets._block import Block, joined, sentence_block, table_block
from sparkwright_widgets._format import bytes_text, count_text, counted, escaped, shortened

PAGE = 12
NEWEST, NAME, LARGEST, PARAMETERS = "newest first", "name", "largest first", "most parameters first"
_METRIC = "by "
_LONGEST_TEXT = 160
_LONGEST_NAME = 200
_MOST_IN_STILL = 50
_HEADS = ("Model", "Saved", "Size", "Parameters", "Metrics", "Title")
MOST_COMPARED = 6


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """A listing of models, with search text, order and page."""

    folder_url: str
    models: tuple[ModelInfo, ...] = ()
    wanted: str = ""  # in name, title or comment, ignoring case; empty: all
    order: str = NEWEST  # one of `orders`
    page: int = 0  # from 0; the last one if it is higher

    def name_of(self, info: ModelInfo) -> str:
        """A model's path within the folder."""
        return info.url.removeprefix(f"{self.folder_url.rstrip('/')}/")

    @property
    def orders(self) -> tuple[str, ...]:
        """The sort orders, including one for each numeric metric of any model."""
        metrics = (item for info in self.models for item in info.metrics.items())
        names = sorted({name for name, value in metrics if is_number(value)})
        return (NEWEST, NAME, LARGEST, PARAMETERS, *(f"{_METRIC}{name}" for name in names))

    @property
    def found(self) -> tuple[ModelInfo, ...]:
        """The matching models, sorted; models without the sort value come last."""
        wanted = self.wanted.strip().lower()
        kept = [
            info
            for info in self.models
            if wanted
            in " ".join((self.name_of(info), info.title or "", info.comment or "")).lower()
        ]
        kept.sort(key=lambda info: info.url)
        if self.order == NAME:
            return tuple(kept)

        def key(info: ModelInfo) -> tuple[bool, float]:
            value = self._value(info)
            return value is None, 0.0 if value is None else -value

        return tuple(sorted(kept, key=key))

    @property
    def pages(self) -> int:
        """Number of pages, at least 1."""
        return max(1, -(-len(self.found) // PAGE))

    @property
    def number(self) -> int:
        """Index of the shown page, from 0."""
        return min(max(0, self.page), self.pages - 1)

    @property
    def shown(self) -> tuple[ModelInfo, ...]:
        """The models of the page."""
        return self.found[self.number * PAGE : (self.number + 1) * PAGE]

    @property
    def status(self) -> str:
        """A sentence with the numbers of models, matches and shown models."""
        if not self.models:
            return f"No models in {self.folder_url}."
        found = len(self.found)
        if not found:
            return f"{self.counted}; none matches “{self.wanted.strip()}”."
        first, last = self.number * PAGE + 1, self.number * PAGE + len(self.shown)
        which = "" if found == len(self.models) else f", {count_text(found)} found"
        return f"{self.counted}{which}; {first} to {last} shown, {self.order}."

    @property
    def counted(self) -> str:
        """The number of models and the folder, as text."""
        return f"{counted(len(self.models), 'model')} in {self.folder_url}"

    def _value(self, info: ModelInfo) -> float | None:
        time = None if info.saved_at is None else info.saved_at.timestamp()
        usual = {NEWEST: time, LARGEST: info.size_bytes, PARAMETERS: info.parameters}
        value: Any = usual.get(self.order)
        if self.order not in usual:
            value = info.metrics.get(self.order.removeprefix(_METRIC))
        return float(value) if is_number(value) and value == value else None


def details(info: ModelInfo) -> str:
    """Time, size, metrics, title and comment of a model in one line."""
    if info.problem is not None:
        return f"Invalid model: {_short(info.problem)}"
    parts = [
        time_text(info.saved_at),
        bytes_text(info.size_bytes),
        "" if info.parameters is None else f"{count_text(info.parameters)} parameters",
        metrics_text(info.metrics),
        info.title or "",
        info.comment or "",
    ]
    return " · ".join(_short(part) for part in parts if part)


def file_name(text: str) -> str:
    """Validate a typed file name and add the suffix `.keras`.

    Raises:
        ConfigurationError: if it is empty, leads to another folder, or has another suffix.

    Example:
        >>> file_name(" lenet 2 "), file_name("best/lenet.keras")
        ('lenet 2.keras', 'best/lenet.keras')
    """
    name = text.strip()
    parts = name.split("/")
    if not name or len(name) > _LONGEST_NAME or any(part.strip(". ") == "" for part in parts):
        raise ConfigurationError(
            "a file name must contain letters or digits, and stay within the folder. Received: "
            f"{name!r:.80}."
        )
    if any(part.startswith((".", "_")) for part in parts):
        raise ConfigurationError(
            "a file name must not start with `.` or `_`, because listings skip such files. "
            f"Received: {name!r:.80}."
        )
    if any(sign in name for sign in "\\:*?[]#\n\r\t\0"):
        raise ConfigurationError(
            "a file name must not contain any of `\\ : * ? [ ] #` or line breaks. Received: "
            f"{name!r:.80}."
        )
    if name.lower().endswith((".h5", ".hdf5")):
        raise ConfigurationError(
            f"models are saved as `.keras` files. Received: {name!r:.80}. Omit the suffix."
        )
    return name if name.lower().endswith(".keras") else f"{name}.keras"


def is_number(value: object) -> bool:
    """Whether `value` is a number other than a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), _LONGEST_TEXT)


def why_disabled(catalog: Catalog, ticked: Sequence[ModelInfo], *, listed: bool) -> str:
    """A hint that names the selected models, or explains why buttons are disabled."""
    if not catalog.folder_url:
        return "Enter a folder first."
    if not listed:
        return "Press List models to see what is in the folder."
    if not catalog.models:
        return "The folder has no models. Save a model, or choose another folder."
    if not ticked:
        several = f"select two to {MOST_COMPARED} to compare them"
        return f"Select a model to load, check or delete it; {several}."
    if len(ticked) == 1:
        name = catalog.name_of(ticked[0])
        if ticked[0].problem is not None:
            return f"Selected: {name}. It is not a valid model and cannot be loaded."
        return f"Selected: {name}. Select another model to compare them."
    names = ", ".join(catalog.name_of(info) for info in ticked[:MOST_COMPARED])
    more = len(ticked) - MOST_COMPARED
    if more > 0:
        return f"Selected: {names} and {more} more; at most {MOST_COMPARED} can be compared."
    return f"Selected: {names}. To load a model, select only that one."


def still_block(catalog: Catalog, comparison_html: str, *, style: str) -> Block:
    """The models as a table, and the comparison, for saved notebooks and reports."""
    found = catalog.found[:_MOST_IN_STILL]
    rows = [
        [
            catalog.name_of(info),
            time_text(info.saved_at) or "—",
            bytes_text(info.size_bytes),
            "—" if info.parameters is None else count_text(info.parameters),
            _short(metrics_text(info.metrics)),
            _short(info.title or info.comment or "")
            if info.problem is None
            else f"✕ invalid model: {_short(info.problem)}",
        ]
        for info in found
    ]
    left_out = len(catalog.found) - len(rows)
    more = f"{count_text(left_out)} more are not listed." if left_out else ""
    heading = f"<style>{style}</style><p><b>{escaped(catalog.counted)}</b></p>"
    table = table_block(_HEADS, rows, label="Saved models", text_columns=(1, 4, 5))
    return joined(
        "models",
        Block(html=heading, text=catalog.counted, kind="heading"),
        *([table] if rows else []),
        sentence_block(more),
        Block(html=comparison_html, text="", kind="comparison"),
    )
