"""The row in hand, told in full: what it is, its shapes, what is wrong with it. Pure."""

from sparkwright.networks import LayerAnalysis
from sparkwright.networks.palette import sentence_of
from sparkwright_widgets._format import escaped

from ._words import parameters_text, row_state, shape_text


def layer_heading(row: LayerAnalysis, mistake: str = "") -> str:
    """Number, kind, shapes and size, and what such a layer does.

    Args:
        row: the layer, looked at.
        mistake: what is wrong with a value that is being typed.
    """
    does = sentence_of(row.kind)
    sentence = f'<div class="sparkwright-advice">{escaped(does)}</div>' if does else ""
    return (
        f'<div class="sparkwright-editor-title"><b>Row {row.index + 1}: {escaped(row.kind)}</b> '
        f"<span>{escaped(_size(row, mistake))}</span></div>{sentence}"
    )


def layer_problem(row: LayerAnalysis) -> str:
    """What is wrong with the layer among the others; empty: nothing."""
    if row.problem is None or not row.enabled:
        return ""
    return (
        '<div class="sparkwright-problem" role="alert"><span aria-hidden="true">✕</span> '
        f"{escaped(row.problem)}</div>"
    )


def _size(row: LayerAnalysis, mistake: str) -> str:
    if not row.enabled or row.output_shape is None:
        state = row_state(row, mistake)
        return f"{state.sign} {state.word}"
    shapes = " and ".join(shape_text(shape) for shape in row.input_shapes)
    taken = f"{shapes} → " if shapes else ""
    return f"{taken}{shape_text(row.output_shape)}, {parameters_text(row.parameters)}"
