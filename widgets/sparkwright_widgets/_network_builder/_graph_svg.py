"""A network as inline SVG: boxes for layers, lines for what they take. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from sparkwright.networks import LayerAnalysis
from sparkwright_widgets._format import escaped

from ._graph_layout import GraphLayout, Point, graph_layout
from ._words import row_state, shape_text, shortened

LAYERS_DRAWN = 300
_LAYERS_TOLD = 40  # one by one; nobody listens to more

_PLACE_WIDTH = 208
_BOX_WIDTH = 188
_RANK_HEIGHT = 76
_BOX_HEIGHT = 46
_EDGE_OF_PAGE = 4
_LETTERS = 26  # that fit into a box


def is_chain(rows: Sequence[LayerAnalysis]) -> bool:
    """Whether each layer takes the one before it, so that the list of rows says it all."""
    enabled = [row for row in rows if row.enabled]
    return all(row.inputs == (before.name,) for before, row in pairwise(enabled)) and not any(
        row.inputs for row in enabled[:1]
    )


def graph_svg(
    rows: Sequence[LayerAnalysis], *, name: str, outputs: Sequence[str] = (), selected: int = -1
) -> str:
    """Draw the layers that are switched on; the text around gives the colour.

    Args:
        rows: the network, looked at.
        name: of the network, for the text that stands for the picture.
        outputs: names of the layers that are outputs.
        selected: the index of the row in hand; its box has a thicker line.
    """
    drawn = [row for row in rows if row.enabled]
    if not drawn:
        return '<p class="sparkwright-advice">There is no layer to draw.</p>'
    if len(drawn) > LAYERS_DRAWN:
        return (
            f'<p class="sparkwright-advice">The network has {len(drawn)} layers; up to '
            f"{LAYERS_DRAWN} are drawn. The list of rows has them all.</p>"
        )
    layout = graph_layout({row.name: row.inputs for row in drawn})
    width = round(layout.width * _PLACE_WIDTH) + 2 * _EDGE_OF_PAGE
    height = (layout.ranks - 1) * _RANK_HEIGHT + _BOX_HEIGHT + 2 * _EDGE_OF_PAGE
    lines = "".join(_line([_page(point) for point in points]) for _, _, points in layout.edges)
    boxes = "".join(
        _box(row, layout, is_output=row.name in outputs, is_selected=row.index == selected)
        for row in drawn
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


def _page(place: Point) -> Point:
    """A place of the layout in pixels: the middle of a box."""
    x, rank = place
    return (
        _EDGE_OF_PAGE + x * _PLACE_WIDTH,
        _EDGE_OF_PAGE + rank * _RANK_HEIGHT + _BOX_HEIGHT / 2,
    )


def _line(middles: list[Point]) -> str:
    """From the lower edge of a box to the upper one of another, upright through each rank."""
    half, bow = _BOX_HEIGHT / 2, (_RANK_HEIGHT - _BOX_HEIGHT) / 2
    x, y = middles[0]
    path = [f"M{x:.1f} {y + half:.1f}"]
    for number, (x2, y2) in enumerate(middles[1:], start=2):
        top = y2 - half
        path.append(f"C{x:.1f} {top - bow:.1f} {x2:.1f} {top - bow:.1f} {x2:.1f} {top:.1f}")
        if number < len(middles):
            path.append(f"V{y2 + half:.1f}")
        x = x2
    end = middles[-1][1] - half
    tip = f"M{x - 4:.1f} {end - 7:.1f}L{x:.1f} {end:.1f}L{x + 4:.1f} {end - 7:.1f}"
    return f'<path stroke-opacity="0.65" d="{"".join(path)}{tip}"/>'


def _box(row: LayerAnalysis, layout: GraphLayout, *, is_output: bool, is_selected: bool) -> str:
    x, y = _page(layout.places[row.name])
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
    return (
        f"<g><title>{escaped(title)}</title>"
        f'<rect x="{x - _BOX_WIDTH / 2:.1f}" y="{y - _BOX_HEIGHT / 2:.1f}" '
        f'width="{_BOX_WIDTH}" height="{_BOX_HEIGHT}" rx="6" stroke-width="{line:g}"{dash} '
        'fill="currentColor" fill-opacity="0.05"/>'
        f'<text x="{x:.1f}" y="{y - 4:.1f}" text-anchor="middle" fill="currentColor" '
        f'stroke="none" font-weight="600">{escaped(name)}</text>'
        f'<text x="{x:.1f}" y="{y + 13:.1f}" text-anchor="middle" fill="currentColor" '
        f'stroke="none" font-size="11">{escaped(below)}</text></g>'
    )
