"""A network as inline SVG: a box for each layer in columns, and lines for what they take. Pure."""

from collections.abc import Mapping, Sequence

from sparkwright.networks import LayerAnalysis
from sparkwright_widgets._format import escaped
from sparkwright_widgets._ui import advice

from ._html import row_state, shape_text, shortened

LAYERS_DRAWN = 300
_LAYERS_TOLD = 40  # one by one; nobody listens to more

_COLUMN_WIDTH = 208
_BOX_WIDTH = 188
_ROW_HEIGHT = 76
_BOX_HEIGHT = 46
_EDGE_OF_PAGE = 4
_LETTERS = 26  # that fit into a box


def columns(inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """The column of each layer, from 0, where each layer has a row of its own.

    A layer's column stays free below it down to the last layer that takes it, so lines lead
    straight down and cross no box.

    Args:
        inputs: by name, the names of the layers whose outputs it takes, in an order in which each
            layer comes after those that it takes.

    Example:
        >>> columns({"a": [], "b": ["a"], "c": ["b"], "sum": ["c", "a"]})
        {'a': 0, 'b': 1, 'c': 1, 'sum': 1}
    """
    last_use = {name: name for name in inputs}
    for name, taken in inputs.items():
        last_use.update({source: name for source in taken if source in last_use})
    rows = {name: row for row, name in enumerate(inputs)}
    found: dict[str, int] = {}
    busy: dict[int, int] = {}  # column -> the row down to which it is not free
    for name, taken in inputs.items():
        row = rows[name]
        free = (found[source] for source in taken if source in found)
        usual = next((column for column in free if busy[column] <= row), None)
        if usual is None:
            usual = next(n for n in range(len(inputs)) if busy.get(n, -1) <= row)
        found[name] = usual
        busy[usual] = max(rows[last_use[name]], row + 1)
    return found


def graph_svg(
    rows: Sequence[LayerAnalysis], *, name: str, outputs: Sequence[str] = (), selected: int = -1
) -> str:
    """Draw the layers that are switched on; the text around gives the color.

    Args:
        rows: the network, analyzed.
        name: of the network, for the text that stands for the picture.
        outputs: names of the layers that are outputs.
        selected: the index of the selected row; its box has a thicker line.
    """
    drawn = [row for row in rows if row.enabled]
    if not drawn:
        return advice("There is no layer to draw.")
    if len(drawn) > LAYERS_DRAWN:
        return advice(
            f"The network has {len(drawn)} layers; up to {LAYERS_DRAWN} are drawn. "
            "The list of rows has them all."
        )
    places = columns({row.name: row.inputs for row in drawn})
    middles = {
        name: (
            _EDGE_OF_PAGE + (column + 0.5) * _COLUMN_WIDTH,
            _EDGE_OF_PAGE + place * _ROW_HEIGHT + _BOX_HEIGHT / 2,
        )
        for place, (name, column) in enumerate(places.items())
    }
    width = (max(places.values()) + 1) * _COLUMN_WIDTH + 2 * _EDGE_OF_PAGE
    height = (len(places) - 1) * _ROW_HEIGHT + _BOX_HEIGHT + 2 * _EDGE_OF_PAGE
    lines = "".join(
        _line(middles[source], middles[row.name])
        for row in drawn
        for source in dict.fromkeys(row.inputs)
        if source in middles and middles[source][1] < middles[row.name][1]
    )
    boxes = "".join(
        _box(row, middles[row.name], row.name in outputs, row.index == selected) for row in drawn
    )
    alt = graph_text(rows, name=name, outputs=outputs)
    return (
        '<div class="sparkwright-scroll sparkwright-graph" tabindex="0" role="region" '
        f'aria-label="Graph of {escaped(name)}">'
        f'<svg role="img" aria-label="{escaped(alt)}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-size="12" fill="none" stroke="currentColor">{lines}{boxes}</svg></div>'
    )


def graph_text(rows: Sequence[LayerAnalysis], *, name: str, outputs: Sequence[str] = ()) -> str:
    """The same in words: which layer takes which, for those who do not see the picture."""
    drawn = [row for row in rows if row.enabled]
    taking = [row for row in drawn if row.inputs]
    sentences = [
        f"{row.name} ({row.kind}) takes {_listed(row.inputs)}" for row in taking[:_LAYERS_TOLD]
    ]
    if len(taking) > _LAYERS_TOLD:
        sentences.append(f"{len(taking) - _LAYERS_TOLD} more, told in the list of rows")
    starts = [row.name for row in drawn if not row.inputs]
    ends = f" Outputs: {_listed(outputs)}." if outputs else ""
    begins = f" Begins with {_listed(starts)}." if starts else ""
    middle = f" {'; '.join(sentences)}." if sentences else ""
    return f"Graph of {name}, {len(drawn)} layers.{begins}{middle}{ends}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _line(source: tuple[float, float], target: tuple[float, float]) -> str:
    """From the lower edge of a box down its column, then over to the upper edge of another."""
    half, bow = _BOX_HEIGHT / 2, (_ROW_HEIGHT - _BOX_HEIGHT) / 2
    (x, y), (x2, y2) = source, target
    end = y2 - half
    top, bend = end - 2 * bow, end - bow
    path = f"M{x:.1f} {y + half:.1f}V{top:.1f}C{x:.1f} {bend:.1f} {x2:.1f} {bend:.1f} {x2:.1f} "
    tip = f"{end:.1f}M{x2 - 4:.1f} {end - 7:.1f}L{x2:.1f} {end:.1f}L{x2 + 4:.1f} {end - 7:.1f}"
    return f'<path stroke-opacity="0.65" d="{path}{tip}"/>'


def _box(row: LayerAnalysis, at: tuple[float, float], is_output: bool, is_selected: bool) -> str:
    x, y = at
    state = row_state(row)
    dash = ' stroke-dasharray="5 3"' if state.key in ("problem", "waiting") else ""
    line = 2.5 if is_selected or state.key == "problem" else 1
    sign = "" if state.key == "ok" else f"{state.sign} "
    name = shortened(f"{sign}{row.name}", _LETTERS)
    result = "output " if is_output else ""
    size = shape_text(row.output_shape) if state.key == "ok" else state.word
    below = shortened(f"{row.kind} · {result}{size}", _LETTERS + 4)
    title = f"Row {row.index + 1}: {row.name}, {row.kind}, {size}"
    if row.problem is not None:
        title += f". {row.problem}"
    text = 'text-anchor="middle" fill="currentColor" stroke="none"'
    return (
        f"<g><title>{escaped(title)}</title>"
        f'<rect x="{x - _BOX_WIDTH / 2:.1f}" y="{y - _BOX_HEIGHT / 2:.1f}" '
        f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" stroke-width="{line:g}"{dash} '
        'fill="currentColor" fill-opacity="0.05"/>'
        f'<text x="{x:.1f}" y="{y - 4:.1f}" {text} font-weight="600">{escaped(name)}</text>'
        f'<text x="{x:.1f}" y="{y + 13:.1f}" {text} font-size="11">{escaped(below)}</text></g>'
    )
