"""Draw a network as inline SVG: a labeled graph or a thumbnail. Pure."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from sparkwright.networks import PRESETS, LayerAnalysis, analysis_now
from sparkwright.networks.palette import group_of
from sparkwright_widgets._format import escaped, shape_text, shortened
from sparkwright_widgets._ui import advice

from ._html import kind_sign, row_state

LAYERS_DRAWN = 300
_LAYERS_DESCRIBED = 40  # in the text for screen readers
_EDGE_OF_PAGE = 4
_LETTERS = 13  # characters that fit into a box


class _Size(NamedTuple):
    """Sizes in pixels, across and along the direction of the edges."""

    across: int
    along: int
    gap_across: int
    gap_along: int
    is_down: bool  # edges point down; False: to the right

    def at(self, across: float, along: float) -> str:
        """The SVG coordinates of a point."""
        x, y = (across, along) if self.is_down else (along, across)
        return f"{x:.1f} {y:.1f}"

    def middle(self, place: tuple[int, int]) -> tuple[float, float]:
        """The center of the box at (column, rank)."""
        column, rank = place
        return (
            _EDGE_OF_PAGE + self.across / 2 + column * (self.across + self.gap_across),
            _EDGE_OF_PAGE + self.along / 2 + rank * (self.along + self.gap_along),
        )


_LARGE = _Size(150, 28, 16, 27, True)
_SMALL = _Size(11, 13, 6, 6, False)


def columns(inputs: Mapping[str, Sequence[str]]) -> dict[str, int]:
    """Assign each layer a column, from 0; each layer has its own row, after its inputs.

    A layer's column stays free down to the last layer that uses its output, so edges run straight
    down and cross no box.

    Example:
        >>> columns({"a": [], "b": ["a"], "c": ["b"], "sum": ["c", "a"]})
        {'a': 0, 'b': 1, 'c': 1, 'sum': 1}
    """
    last_use = {name: name for name in inputs}
    for name, taken in inputs.items():
        last_use.update({source: name for source in taken if source in last_use})
    rows = {name: row for row, name in enumerate(inputs)}
    found: dict[str, int] = {}
    busy: dict[int, int] = {}  # column -> the last occupied row
    for name, taken in inputs.items():
        row = rows[name]
        free = (found[source] for source in taken if source in found)
        usual = next((column for column in free if busy[column] <= row), None)
        if usual is None:
            usual = next(n for n in range(len(inputs)) if busy.get(n, -1) <= row)
        found[name] = usual
        busy[usual] = max(rows[last_use[name]], row + 1)
    return found


def ranks(inputs: Mapping[str, Sequence[str]], columns: Mapping[str, int]) -> dict[str, int]:
    """Assign each layer the lowest free rank of its column, from 0, below its inputs.

    Example:
        >>> graph = {"a": [], "b": ["a"], "c": ["a"], "sum": ["b", "c"]}
        >>> ranks(graph, columns(graph))
        {'a': 0, 'b': 1, 'c': 1, 'sum': 2}
    """
    found: dict[str, int] = {}
    free: dict[int, int] = {}  # column -> the first free rank
    for name, taken in inputs.items():
        sources = [source for source in taken if source in found]
        rank = max([free.get(columns[name], 0), *(found[source] + 1 for source in sources)])
        found[name] = rank
        for source in sources:
            free[columns[source]] = max(free[columns[source]], rank)
        free[columns[name]] = rank + 1
    return found


def graph_svg(rows: Sequence[LayerAnalysis], *, name: str, outputs: Sequence[str] = ()) -> str:
    """Draw the enabled layers in the color of the surrounding text."""
    drawn = [row for row in rows if row.enabled]
    if not drawn:
        return advice("The network has no enabled layers.")
    if len(drawn) > LAYERS_DRAWN:
        return advice(
            f"The network has {len(drawn)} layers; the graph shows at most {LAYERS_DRAWN}. "
            "See the list of layers."
        )
    width, height, lines, middles = _drawn(drawn, _LARGE)
    height += 14 * bool(outputs)  # for the shape below the last box
    boxes = "".join(_box(row, middles[row.name], row.name in outputs) for row in drawn)
    alt = graph_text(rows, name=name, outputs=outputs)
    return (
        f'<svg role="img" aria-label="{escaped(alt)}" xmlns="http://www.w3.org/2000/svg" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
        f'font-size="12" fill="none" stroke="currentColor">{lines}{boxes}</svg>'
    )


def graph_html(svg: str, *, name: str) -> str:
    """The graph in a scrollable box."""
    label = escaped(f"Graph of {name}")
    return (
        f'<div class="sparkwright-scroll sparkwright-graph" tabindex="0" role="region" '
        f'aria-label="{label}">{svg}</div>'
    )


@cache
def thumbnail_svg(preset: str) -> str:
    """The graph of a preset without text, for its button."""
    rows = analysis_now(PRESETS[preset].make()).rows
    width, height, lines, middles = _drawn(rows, _SMALL)
    boxes = "".join(
        f'<g class="sparkwright-node {_group_class(row.kind)}"><rect {_sides(middles[row.name])} '
        'rx="2" fill="currentColor" fill-opacity="0.15"/></g>'
        for row in rows
    )
    return (
        '<svg aria-hidden="true" preserveAspectRatio="none" xmlns="http://www.w3.org/2000/svg" '
        f'width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" fill="none" '
        f'stroke="currentColor">{lines}{boxes}</svg>'
    )


def _drawn(
    rows: Sequence[LayerAnalysis], size: _Size
) -> tuple[float, float, str, dict[str, tuple[float, float]]]:
    """Return width, height, SVG of the edges, and the center (x, y) of each box."""
    inputs = {row.name: row.inputs for row in rows}
    column = columns(inputs)
    rank = ranks(inputs, column)
    middles = {name: size.middle((column[name], rank[name])) for name in inputs}
    lines = "".join(
        _line(middles[source], middles[row.name], size)
        for row in rows
        for source in dict.fromkeys(row.inputs)
        if source in middles and middles[source][1] < middles[row.name][1]
    )
    across, along = size.middle((max(column.values()), max(rank.values())))
    across += size.across / 2 + _EDGE_OF_PAGE
    along += size.along / 2 + _EDGE_OF_PAGE
    if size.is_down:
        return across, along, lines, middles
    return along, across, lines, {name: (y, x) for name, (x, y) in middles.items()}


def graph_text(rows: Sequence[LayerAnalysis], *, name: str, outputs: Sequence[str] = ()) -> str:
    """Describe the graph in words, for screen readers."""
    drawn = [row for row in rows if row.enabled]
    taking = [row for row in drawn if row.inputs]
    sentences = [
        f"{row.name} ({row.kind}) takes {_listed(row.inputs)}" for row in taking[:_LAYERS_DESCRIBED]
    ]
    if len(taking) > _LAYERS_DESCRIBED:
        sentences.append(f"{len(taking) - _LAYERS_DESCRIBED} more in the list of layers")
    starts = [row.name for row in drawn if not row.inputs]
    ends = f" Outputs: {_listed(outputs)}." if outputs else ""
    begins = f" Begins with {_listed(starts)}." if starts else ""
    middle = f" {'; '.join(sentences)}." if sentences else ""
    return f"Graph of {name}, {len(drawn)} layers.{begins}{middle}{ends}"


def _listed(names: Sequence[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _line(source: tuple[float, float], target: tuple[float, float], size: _Size) -> str:
    """An edge: down the column of the source box, then to the target box."""
    half, bow = size.along / 2, size.gap_along / 2
    (x, y), (x2, y2) = source, target
    end = y2 - half
    top, bend = end - 2 * bow, end - bow
    path = f"M{size.at(x, y + half)}L{size.at(x, top)}"
    path += f"C{size.at(x, bend)} {size.at(x2, bend)} {size.at(x2, end)}"
    tip = min(7, bow)
    sides = (size.at(x2 + side * 0.55 * tip, end - tip) for side in (-1, 1))
    path += "M{}L{}L{}".format(*(next(sides), size.at(x2, end), next(sides)))
    return f'<path stroke-opacity="0.55" d="{path}"/>'


def _sides(at: tuple[float, float], size: _Size = _SMALL) -> str:
    (x, y), (width, height) = at, (size.across, size.along)
    if not size.is_down:
        width, height = height, width
    return f'x="{x - width / 2:.1f}" y="{y - height / 2:.1f}" width="{width}" height="{height}"'


def _group_class(kind: str) -> str:
    return f"sparkwright-of-{'input' if kind == 'Input' else group_of(kind)}"


def _box(row: LayerAnalysis, at: tuple[float, float], is_output: bool) -> str:
    x, y = at
    state = row_state(row)
    left, right, below = x - _LARGE.across / 2, x + _LARGE.across / 2, y + _LARGE.along / 2
    is_ok = state.key == "ok"
    dash = "" if is_ok else ' stroke-dasharray="5 3"'
    line = 2.5 if state.key == "problem" else 1
    size = shape_text(row.output_shape) if is_ok else state.word
    beside = [size if state.key in ("ok", "problem") else "", "output" if is_output else ""]
    note = " · ".join(filter(None, beside))
    number = f"{f'{state.sign} ' if state.key == 'problem' else ''}{row.index + 1}"
    title = f"{row.name} ({row.kind}), row {row.index + 1}, {size}"
    if row.problem is not None:
        title += f". {row.problem}"
    text = 'fill="currentColor" stroke="none"'
    small = f'{text} font-size="10.5" fill-opacity="0.75"'
    return (
        f'<g class="sparkwright-node sparkwright-node-{state.key} {_group_class(row.kind)}" '
        f'data-row="{row.index}"><title>{escaped(title)}</title>'
        f'<rect {_sides(at, _LARGE)} rx="6" stroke-width="{line:g}"{dash} '
        'fill="currentColor" fill-opacity="0.05"/>'
        f'<text x="{left + 14:.1f}" y="{y + 4:.1f}" {text} text-anchor="middle">'
        f"{kind_sign(row.kind)}</text>"
        f'<text x="{left + 26:.1f}" y="{y + 4:.1f}" {text} font-weight="600">'
        f"{escaped(shortened(row.kind, _LETTERS))}</text>"
        f'<text x="{right - 7:.1f}" y="{y + 4:.1f}" {small} text-anchor="end">{number}</text>'
        f'<text x="{x + 7:.1f}" y="{below + 13:.1f}" {small} '
        f'class="sparkwright-node-shape">{escaped(note)}</text></g>'
    )
