"""Render rows, layer details and the summary of a network as text and HTML. Pure."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sparkwright.networks import LayerAnalysis, NetworkAnalysis, layer_kind
from sparkwright.networks.keras_catalog import is_loaded
from sparkwright.networks.palette import group_of
from sparkwright_widgets._format import bytes_text, count_text, counted, escaped, shape_text
from sparkwright_widgets._table import Markup, html_table
from sparkwright_widgets._ui import advice

_GROUP_SIGNS = {
    "core": "▤",
    "convolution": "▦",
    "pooling": "▽",
    "recurrent": "↻",
    "embedding": "#",
    "normalization": "≈",
    "reshaping": "⇄",
    "merging": "⋎",
    "activation": "∿",
}


class RowState(NamedTuple):
    """The state of a row: a CSS key, a sign and a word, so that color is never the only cue."""

    key: str  # "ok", "problem", "waiting" or "off"
    sign: str
    word: str


def parameters_text(parameters: int | None) -> str:
    """The number of parameters as text, such as "520 parameters"."""
    if parameters is None:
        return "—"
    if parameters == 0:
        return "no parameters"
    return counted(parameters, "parameter")


def row_state(row: LayerAnalysis, mistake: str = "") -> RowState:
    """The state of `row`; `mistake` is the validation error of a typed value."""
    if not row.enabled:
        return RowState("off", "◌", "off")
    if mistake or row.problem is not None:
        return RowState("problem", "✕", "problem")
    if row.waiting_for is not None:
        return RowState("waiting", "⋯", f"waiting for row {row.waiting_for + 1}")
    if row.output_shape is None and row.parameters is None:
        return RowState("waiting", "⋯", "not known yet")
    return RowState("ok", "✓", "OK")


def layer_rows(
    rows: Sequence[LayerAnalysis],
    *,
    outputs: Sequence[str] = (),
    mistakes: Mapping[str, str] | None = None,
) -> list[dict[str, str]]:
    """HTML and state ("ok", "problem", ...) of each row; `mistakes` by name of the layer."""
    found: list[dict[str, str]] = []
    for before, row in zip([None, *rows], rows, strict=False):
        mistake = (mistakes or {}).get(row.name, "")
        takes_above = before is not None and row.inputs == (before.name,)
        taken = "" if takes_above or not row.inputs else f"inputs: {', '.join(row.inputs)}"
        trouble = mistake or (row.problem if row.enabled else None) or ""
        html = (
            f"{_span('number', str(row.index + 1))}"
            f'<span class="sparkwright-layer-sign" aria-hidden="true">{kind_sign(row.kind)}</span>'
            f'<span class="sparkwright-layer-name"><b>{escaped(row.kind)}</b> {escaped(row.name)} '
            f"{_span('output', 'output' if row.name in outputs else '')}</span>{_size(row)}"
            f'<span class="sparkwright-layer-state">{_state_html(row, mistake)}</span>'
            f"{_span('takes', taken)}{_span('trouble', trouble)}"
        )
        found.append({"html": html, "state": row_state(row, mistake).key})
    return found


def kind_sign(kind: str) -> str:
    return "→" if kind == "Input" else _GROUP_SIGNS.get(group_of(kind), "□")


LAYER_HEADS = ("Row", "Layer", "Kind", "Inputs", "Output shape", "Parameters", "State")
TEXT_COLUMNS = (1, 2, 3, 4, 6)


def layer_cells(row: LayerAnalysis, state: object) -> list[object]:
    """The cells of a row under `LAYER_HEADS`."""
    return [
        row.index + 1,
        row.name,
        row.kind,
        ", ".join(row.inputs) or "—",
        shape_text(row.output_shape),
        "—" if row.parameters is None else count_text(row.parameters),
        state,
    ]


def layer_table(rows: Sequence[LayerAnalysis], *, name: str) -> str:
    """The rows as an HTML table, for saved notebooks and reports."""
    states = (
        Markup(_state_html(row) + (f": {escaped(row.problem)}" if row.problem else ""))
        for row in rows
    )
    cells = list(map(layer_cells, rows, states))
    return html_table(LAYER_HEADS, cells, label=f"Layers of {name}", text_columns=TEXT_COLUMNS)


def _size(row: LayerAnalysis) -> str:
    if row.output_shape is None or not row.enabled:
        return ""
    parts = (shape_text(row.output_shape), parameters_text(row.parameters))
    inside = "".join(f"<span>{escaped(part)}</span> " for part in parts)
    return f'<span class="sparkwright-layer-size">{inside}</span>'


def _span(name: str, text: str) -> str:
    return f'<span class="sparkwright-layer-{name}">{escaped(text)}</span>' if text else ""


def _state_html(row: LayerAnalysis, mistake: str = "") -> str:
    state = row_state(row, mistake)
    return f'<span aria-hidden="true">{state.sign}</span> {escaped(state.word)}'


def layer_heading(row: LayerAnalysis, mistake: str = "") -> str:
    """Row number, kind, shapes, size and description of a layer, as HTML."""
    kind = layer_kind(row.kind) if is_loaded() else None
    state = row_state(row, mistake)
    size = f"{state.sign} {state.word}"
    if row.enabled and row.output_shape is not None:
        shapes = " and ".join(map(shape_text, row.input_shapes))
        taken = f"{shapes} → " if shapes else ""
        size = f"{taken}{shape_text(row.output_shape)}, {parameters_text(row.parameters)}"
    return (
        f'<div class="sparkwright-editor-title"><b>Row {row.index + 1}: {escaped(row.kind)}</b> '
        f"<span>{escaped(size)}</span></div>{advice(kind.sentence if kind else '')}"
    )


def size_text(analysis: NetworkAnalysis) -> str:
    """The size of the network, such as `8 layers, 431,080 parameters (1.6 MiB)`."""
    layers = sum(row.enabled for row in analysis.rows)
    size = bytes_text(4 * analysis.parameters)
    fixed = analysis.parameters - analysis.trainable_parameters
    apart = f", {count_text(fixed)} non-trainable" if fixed else ""
    return f"{counted(layers, 'layer')}, {parameters_text(analysis.parameters)} ({size}{apart})"


def summary_line(analysis: NetworkAnalysis, problem: str | None) -> str:
    """Whether the network can be trained, and if not, why; announced to screen readers."""
    if problem is None:
        key, sign, word, sentence = "done", "✓", "Ready", f"{size_text(analysis)}."
    else:
        key, sign, word, sentence = "failed", "✕", "Not ready", problem
    return (
        f'<div class="sparkwright-state sparkwright-is-{key}" role="status" aria-live="polite">'
        f'<span class="sparkwright-badge"><span aria-hidden="true">{sign}</span> {word}</span> '
        f'<span class="sparkwright-message">{escaped(sentence)}</span></div>'
    )
