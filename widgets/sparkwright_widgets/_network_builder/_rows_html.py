"""The rows of the list of layers, as HTML: one row a layer. Pure."""

from collections.abc import Mapping, Sequence

from sparkwright.networks import LayerAnalysis
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._table import Markup, html_table

from ._words import group_sign, parameters_text, row_state, shape_text

Row = dict[str, str]


def layer_rows(
    rows: Sequence[LayerAnalysis],
    *,
    outputs: Sequence[str] = (),
    mistakes: Mapping[str, str] | None = None,
) -> list[Row]:
    """What the list shows: for each row its HTML and its state ("ok", "problem", ...).

    Args:
        rows: the network, looked at.
        outputs: names of the layers that are outputs.
        mistakes: by a layer's name, what is wrong with a value that is being typed.
    """
    wrong = mistakes or {}
    return [
        {
            "html": _row(
                row,
                before=rows[index - 1].name if index else "",
                is_output=row.name in outputs,
                mistake=wrong.get(row.name, ""),
            ),
            "state": row_state(row, wrong.get(row.name, "")).key,
        }
        for index, row in enumerate(rows)
    ]


def layer_table(rows: Sequence[LayerAnalysis], *, name: str) -> str:
    """The same as a table, for saved notebooks and reports."""
    heads = ["Row", "Layer", "Kind", "Takes", "Output shape", "Parameters", "State"]
    cells = [
        [
            row.index + 1,
            row.name,
            row.kind,
            ", ".join(row.inputs) or "—",
            shape_text(row.output_shape),
            "—" if row.parameters is None else count_text(row.parameters),
            Markup(_state_html(row) + (f": {escaped(row.problem)}" if row.problem else "")),
        ]
        for row in rows
    ]
    return html_table(heads, cells, label=f"Layers of {name}", text_columns=(1, 2, 3, 4, 6))


def _row(row: LayerAnalysis, *, before: str, is_output: bool, mistake: str) -> str:
    taken = ""
    if len(row.inputs) > 1 or (row.inputs and row.inputs != (before,)):
        taken = _span("takes", f"takes {', '.join(row.inputs)}")
    trouble = mistake or (row.problem if row.enabled else None) or ""
    sentence = _span("trouble", trouble) if trouble else ""
    mark = _span("output", "output") if is_output else ""
    sign = group_sign(row.kind)
    return (
        f"{_span('number', str(row.index + 1))}"
        f'<span class="sparkwright-layer-sign" aria-hidden="true">{sign}</span>'
        f'<span class="sparkwright-layer-name"><b>{escaped(row.kind)}</b> '
        f"{escaped(row.name)} {mark}</span>"
        f'{_size(row)}<span class="sparkwright-layer-state">{_state_html(row, mistake)}</span>'
        f"{taken}{sentence}"
    )


def _size(row: LayerAnalysis) -> str:
    if row.output_shape is None or not row.enabled:
        return ""
    parts = (shape_text(row.output_shape), parameters_text(row.parameters))
    inside = "".join(f"<span>{escaped(part)}</span> " for part in parts)
    return f'<span class="sparkwright-layer-size">{inside}</span>'


def _span(name: str, text: str) -> str:
    return f'<span class="sparkwright-layer-{name}">{escaped(text)}</span>'


def _state_html(row: LayerAnalysis, mistake: str = "") -> str:
    state = row_state(row, mistake)
    return f'<span aria-hidden="true">{state.sign}</span> {escaped(state.word)}'
