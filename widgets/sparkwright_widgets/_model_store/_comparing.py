"""Compare saved models side by side, marking differences. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sparkwright.storage import ModelInfo
from sparkwright.storage.model_metadata import time_text
from sparkwright_widgets._format import bytes_text, count_text, short_number, shortened
from sparkwright_widgets._table import html_table

from ._catalog import is_number

_MOST_FIELDS = 200
_LONGEST_CELL = 120
_DEEPEST = 6
# Names that Keras generates and numbers through the session; they are not part of the model.
_AUTOMATIC = re.compile(r"(keras_tensor|input_layer|input|functional|sequential|model)(_\d+)?")
_NONE = "—"
_DIFFERS = "≠"


def compared(
    infos: Sequence[ModelInfo], names: Sequence[str], *, only_differences: bool = False
) -> tuple[list[str], list[list[object]]]:
    """Column titles and rows of a comparison: a row per property, a column per model."""
    fields = [dict(_fields(info)) for info in infos]
    labels = dict.fromkeys(label for known in fields for label in known)
    rows: list[list[object]] = []
    for label in labels:
        values = [known.get(label) for known in fields]
        differs = any(value != values[0] for value in values)
        if only_differences and not differs:
            continue
        cells = [
            _cell(label, value, values[0] if place else None) for place, value in enumerate(values)
        ]
        rows.append([f"{_DIFFERS if differs else '='} {label}", *cells])
    return ["≠ differs, = same", *names], rows[:_MOST_FIELDS]


def compared_html(
    infos: Sequence[ModelInfo], names: Sequence[str], *, only_differences: bool = False
) -> str:
    """The comparison as a table, captioned with the number of differences."""
    heads, rows = compared(infos, names, only_differences=only_differences)
    differing = sum(str(row[0]).startswith(_DIFFERS) for row in rows)
    sentence = f"{count_text(differing)} properties of these {len(infos)} models differ."
    table = html_table(
        heads, rows, label="Models compared", text_columns=range(1, len(heads)), caption=sentence
    )
    return f'<div class="sparkwright-compared">{table}</div>'


def _fields(info: ModelInfo) -> Iterator[tuple[str, Any]]:
    """Label and value of each known property, the most important first."""
    known: list[tuple[str, Any]] = [
        ("problem", info.problem),
        ("title", info.title),
        *_flat("metric", info.metrics),
        ("saved", time_text(info.saved_at) or None),
        ("saved by", info.saved_by),
        ("network", None if _AUTOMATIC.fullmatch(info.name or "") else info.name),
        ("parameters", info.parameters),
        ("trainable parameters", info.trainable_parameters),
        *_shapes("input", info.inputs),
        *_shapes("output", info.outputs),
        ("size (bytes)", info.size_bytes),
        ("format", info.format),
        (
            "optimizer's state",
            {None: None, True: "saved", False: "not saved"}[info.has_updater],
        ),
        *_flat("training", info.training or {}),
        ("normalizer", info.normalizer and f"{info.normalizer} the model"),
        ("additional content", ", ".join(info.kept) or None),
        *_flat("version", info.versions),
        ("sha256", info.sha256),
        ("comment", info.comment),
    ]
    return ((label, value) for label, value in known if value is not None)


def _shapes(what: str, shapes: Mapping[str, Sequence[int | None]]) -> Iterator[tuple[str, str]]:
    """Label and shape of each input or output; generated names are replaced by numbers."""
    for place, (name, shape) in enumerate(shapes.items(), start=1):
        is_automatic = _AUTOMATIC.fullmatch(name) is not None
        called = name if not is_automatic else str(place) if len(shapes) > 1 else ""
        yield f"{what} {called}".rstrip(), _shape(shape)


def _flat(prefix: str, values: Mapping[str, Any], depth: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        label = f"{prefix} {name}"
        if isinstance(value, Mapping) and depth < _DEEPEST:
            yield from _flat(label, value, depth + 1)
        else:
            yield label, value


def _cell(label: str, value: Any, first: Any) -> str:
    if value is None:
        return _NONE
    if not is_number(value):
        return shortened(" ".join(str(value).split()), _LONGEST_CELL)
    text = _number(value)
    if label == "size (bytes)":
        text = f"{text} ({bytes_text(value)})"
    if is_number(first) and value != first and value - first == value - first:
        text += f" ({'+' if value > first else '-'}{_number(abs(value - first))})"
    return text


def _number(value: float) -> str:
    return count_text(value) if isinstance(value, int) else short_number(value, 5)


def _shape(shape: Sequence[int | None]) -> str:
    return "(" + ", ".join("any" if length is None else str(length) for length in shape) + ")"
