"""The models of a folder as a person looks through them: found, sorted, page by page. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.storage import ModelInfo
from sparkwright.storage._model_info import metrics_text, time_text
from sparkwright_widgets._format import bytes_text, count_text

PAGE = 12
NEWEST, NAME, LARGEST, PARAMETERS = "newest first", "name", "largest first", "most parameters first"
_METRIC = "by "
_LONGEST_TEXT = 160
_LONGEST_NAME = 200


@dataclass(frozen=True, kw_only=True, slots=True)
class Catalog:
    """What a listing found, and how it is looked at.

    Attributes:
        folder_url: where the models are.
        models: what is known of each.
        wanted: text that name, title or comment must contain, in any case; empty: all.
        order: one of `orders`.
        page: from 0; beyond the last one, the last one is meant.
    """

    folder_url: str
    models: tuple[ModelInfo, ...] = ()
    wanted: str = ""
    order: str = NEWEST
    page: int = 0

    def name_of(self, info: ModelInfo) -> str:
        """A model's path within the folder."""
        return info.url.removeprefix(f"{self.folder_url.rstrip('/')}/")

    @property
    def orders(self) -> tuple[str, ...]:
        """The ways to sort; those by metrics are of the numbers that some model has."""
        metrics = {
            name
            for info in self.models
            for name, value in info.metrics.items()
            if _is_number(value)
        }
        return (
            NEWEST,
            NAME,
            LARGEST,
            PARAMETERS,
            *(f"{_METRIC}{name}" for name in sorted(metrics)),
        )

    @property
    def found(self) -> tuple[ModelInfo, ...]:
        """The models that are wanted, sorted; those without what is sorted by come last."""
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
        """How many there are, at least 1."""
        return max(1, -(-len(self.found) // PAGE))

    @property
    def number(self) -> int:
        """The page that is shown, from 0."""
        return min(max(0, self.page), self.pages - 1)

    @property
    def shown(self) -> tuple[ModelInfo, ...]:
        """The models of the page."""
        return self.found[self.number * PAGE : (self.number + 1) * PAGE]

    @property
    def told(self) -> str:
        """How many there are and which are shown."""
        count = len(self.models)
        where = f"{count_text(count)} model{'' if count == 1 else 's'} in {self.folder_url}"
        if not count:
            return f"No models in {self.folder_url}."
        found = len(self.found)
        if not found:
            return f"{where}; none contains “{self.wanted.strip()}”."
        first, last = self.number * PAGE + 1, self.number * PAGE + len(self.shown)
        which = "" if found == count else f", {count_text(found)} found"
        return f"{where}{which}; {first} to {last} shown, {self.order}."

    def _value(self, info: ModelInfo) -> float | None:
        match self.order:
            case "largest first":
                return float(info.size_bytes)
            case "most parameters first":
                return None if info.parameters is None else float(info.parameters)
            case "newest first":
                return None if info.saved_at is None else info.saved_at.timestamp()
            case _:
                value: Any = info.metrics.get(self.order.removeprefix(_METRIC))
                return float(value) if _is_number(value) and value == value else None


def details(info: ModelInfo) -> str:
    """A model in a line: when, how large, how good, and what for."""
    if info.problem is not None:
        return f"Cannot be used: {_short(info.problem)}"
    parts = [
        time_text(info.saved_at),
        bytes_text(info.size_bytes),
        "" if info.parameters is None else f"{count_text(info.parameters)} parameters",
        metrics_text(info.metrics),
        info.title or "",
        info.comment or "",
    ]
    return " · ".join(_short(part) for part in parts if part)


def list_rows(catalog: Catalog, infos: Iterable[ModelInfo]) -> list[list[object]]:
    """Name, time, size, parameters, metrics and title of each, for tables."""
    return [
        [
            catalog.name_of(info),
            time_text(info.saved_at) or "—",
            bytes_text(info.size_bytes),
            "—" if info.parameters is None else count_text(info.parameters),
            _short(metrics_text(info.metrics)),
            _short(info.title or info.comment or "")
            if info.problem is None
            else f"✕ cannot be used: {_short(info.problem)}",
        ]
        for info in infos
    ]


def file_name(text: str) -> str:
    """The name of a model's file that a person typed, with its ending.

    Raises:
        ConfigurationError: if it is empty, leads to another folder, or has another ending.

    Example:
        >>> file_name(" lenet 2 "), file_name("best/lenet.keras")
        ('lenet 2.keras', 'best/lenet.keras')
    """
    name = text.strip()
    parts = name.split("/")
    if not name or len(name) > _LONGEST_NAME or any(part.strip(". ") == "" for part in parts):
        raise ConfigurationError(
            "a file's name must have letters or digits, and stay within the folder. Received: "
            f"{name!r:.80}."
        )
    if any(part.startswith((".", "_")) for part in parts):
        raise ConfigurationError(
            "a file's name must not begin with `.` or `_`: listings leave those out. Received: "
            f"{name!r:.80}."
        )
    if any(sign in name for sign in "\\:*?[]#\n\r\t\0"):
        raise ConfigurationError(
            "a file's name must not contain any of `\\ : * ? [ ] #` or line ends. Received: "
            f"{name!r:.80}."
        )
    if name.lower().endswith((".h5", ".hdf5")):
        raise ConfigurationError(
            f"models are written as `.keras` files. Received: {name!r:.80}. Leave the ending out."
        )
    return name if name.lower().endswith(".keras") else f"{name}.keras"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1]}…"
