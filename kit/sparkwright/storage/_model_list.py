"""Several saved models as a sequence and as a table."""

import html
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, overload

from ._model_info import ModelInfo, metrics_text, size_text, time_text

_COLUMNS = ("model", "saved", "by", "parameters", "size", "metrics", "title")
_WIDEST = 48
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class ModelList(Sequence[ModelInfo]):
    """The models of a folder, newest first; a sequence of `ModelInfo`.

    Files that cannot be used are there too, with their `problem`; models without a known time, such
    as damaged ones, come last.

    Attributes:
        folder_url: where they are.
        models: what is known of each.

    Example:
        >>> models = ModelList.of("/data", [ModelInfo(url="/data/a.keras", size_bytes=1500)])
        >>> len(models), models[0].url, models.usable[0].size_bytes
        (1, '/data/a.keras', 1500)
        >>> print(models)
        1 model in /data
        model    saved  by  parameters    size  metrics  title
        a.keras                         1.5 kB
    """

    folder_url: str
    models: tuple[ModelInfo, ...]

    @classmethod
    def of(cls, folder_url: str, models: Iterable[ModelInfo]) -> "ModelList":
        """Sort them."""
        by_url = sorted(models, key=lambda info: info.url)
        by_time = sorted(by_url, key=lambda info: info.saved_at or _LONG_AGO, reverse=True)
        return cls(folder_url, tuple(by_time))

    @property
    def usable(self) -> "ModelList":
        """Those without a problem."""
        return ModelList(self.folder_url, tuple(m for m in self.models if m.problem is None))

    def to_frame(self) -> Any:
        """A pandas.DataFrame: a row for each model, a column for each field.

        Metrics that are numbers have a column each, `metrics.<name>`.
        """
        import pandas as pd

        rows: list[dict[str, Any]] = []
        for info in self.models:
            row = info.to_dict()
            metrics = row.pop("metrics")
            numbers = {n: v for n, v in metrics.items() if isinstance(v, int | float)}
            rows.append({**row, **{f"metrics.{name}": value for name, value in numbers.items()}})
        frame = pd.DataFrame(rows or [ModelInfo(url="", size_bytes=0).to_dict()])
        frame = frame[: len(rows)]
        frame["saved_at"] = pd.to_datetime(frame["saved_at"], utc=True, format="ISO8601")
        return frame

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"folder_url": self.folder_url, "models": [info.to_dict() for info in self.models]}

    def __len__(self) -> int:
        return len(self.models)

    def __iter__(self) -> Iterator[ModelInfo]:
        return iter(self.models)

    @overload
    def __getitem__(self, index: int) -> ModelInfo: ...
    @overload
    def __getitem__(self, index: slice) -> "ModelList": ...
    def __getitem__(self, index: int | slice) -> "ModelInfo | ModelList":
        found = self.models[index]
        return ModelList(self.folder_url, found) if isinstance(found, tuple) else found

    def __repr__(self) -> str:
        rows = [_COLUMNS, *([_short(cell) for cell in row] for row in self._cells())]
        if len(rows) == 1:
            return self._heading()
        widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
        lines = (
            "  ".join(
                # Numbers to the right.
                cell.rjust(width) if name in ("parameters", "size") else cell.ljust(width)
                for name, cell, width in zip(_COLUMNS, row, widths, strict=True)
            ).rstrip()
            for row in rows
        )
        return "\n".join([self._heading(), *lines])

    def _repr_html_(self) -> str:
        head = "".join(f"<th style='text-align:left'>{html.escape(name)}</th>" for name in _COLUMNS)
        body = "".join(
            "<tr>{}</tr>".format(
                "".join(f"<td style='text-align:left'>{html.escape(cell)}</td>" for cell in row)
            )
            for row in self._cells()
        )
        return (
            f"<table><caption>{html.escape(self._heading())}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def _heading(self) -> str:
        return f"{len(self)} model{'' if len(self) == 1 else 's'} in {self.folder_url}"

    def _cells(self) -> list[list[str]]:
        within = f"{self.folder_url.rstrip('/')}/"
        return [
            [
                info.url.removeprefix(within),
                time_text(info.saved_at),
                info.saved_by or "",
                "" if info.parameters is None else f"{info.parameters:,}",
                size_text(info.size_bytes),
                metrics_text(info.metrics),
                (info.title or info.comment or "")
                if info.problem is None
                else f"cannot be used: {info.problem}",
            ]
            for info in self.models
        ]


def _short(text: str) -> str:
    """In one line of the terminal."""
    line = " ".join(text.split())
    return line if len(line) <= _WIDEST else f"{line[: _WIDEST - 1]}…"
