"""A network as inline SVG: places of layers, boxes, and lines for what they take. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from sparkwright.networks import LayerAnalysis
from sparkwright_widgets._format import escaped

from ._html import row_state, shape_text, shortened

_SWEEPS = 8
_BEND_WIDTH = 0.35  # of a layer's place, which is 1 wide

Point = tuple[float, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class GraphLayout:
    """Places, in units of one layer's width and height.

    Attributes:
        places: by name, the middle of a layer: (x, rank), from 0.5 and 0.
        edges: (from, to, points); the points begin and end in the middles of the two.
        width: all places lie between 0 and this.
        ranks: how many there are.
    """

    places: Mapping[str, Point]
    edges: tuple[tuple[str, str, tuple[Point, ...]], ...]
    width: float
    ranks: int


def graph_layout(inputs: Mapping[str, Sequence[str]]) -> GraphLayout:
    """Lay out layers, given in an order in which each comes after those that it takes.

    Args:
        inputs: by name, the names of the layers whose outputs it takes; unknown names, and those
            that come later, are left out.

    Example:
        >>> layout = graph_layout({"a": [], "b": ["a"], "c": ["a", "b"]})
        >>> [rank for _, rank in layout.places.values()]
        [0, 1, 2]
    """
    edges = _edges(inputs)
    ranks = _ranks(inputs, edges)
    rows, chains = _with_bends(ranks, edges)
    links = [pair for chain in chains for pair in pairwise(chain)]
    xs = _places(rows, links, ranks)
    left = min((x - _half(node, ranks) for node, x in xs.items()), default=0.0)
    right = max((x + _half(node, ranks) for node, x in xs.items()), default=0.0)
    rank_of = {node: rank for rank, row in enumerate(rows) for node in row}

    def point(node: str) -> Point:
        return xs[node] - left, rank_of[node]

    return GraphLayout(
        places={name: point(name) for name in ranks},
        edges=tuple(
            (chain[0], chain[-1], tuple(point(node) for node in chain)) for chain in chains
        ),
        width=right - left,
        ranks=len(rows),
    )


def _edges(inputs: Mapping[str, Sequence[str]]) -> list[tuple[str, str]]:
    known: set[str] = set()
    edges: list[tuple[str, str]] = []
    for name, taken in inputs.items():
        edges += [(source, name) for source in dict.fromkeys(taken) if source in known]
        known.add(name)
    return edges


def _ranks(inputs: Mapping[str, Sequence[str]], edges: list[tuple[str, str]]) -> dict[str, int]:
    ranks = dict.fromkeys(inputs, 0)
    taken: dict[str, list[str]] = {name: [] for name in inputs}
    for source, target in edges:
        taken[target].append(source)
    for name in inputs:  # sources come first
        ranks[name] = max((ranks[source] + 1 for source in taken[name]), default=0)
    return ranks


def _with_bends(
    ranks: Mapping[str, int], edges: list[tuple[str, str]]
) -> tuple[list[list[str]], list[list[str]]]:
    """The nodes of each rank, bends included, and each edge as a chain of nodes."""
    rows: list[list[str]] = [[] for _ in range(max(ranks.values(), default=-1) + 1)]
    for name, rank in ranks.items():
        rows[rank].append(name)
    chains: list[list[str]] = []
    for number, (source, target) in enumerate(edges):
        chain = [source]
        for rank in range(ranks[source] + 1, ranks[target]):
            bend = f"\0{number}\0{rank}"  # no layer is called so
            rows[rank].append(bend)
            chain.append(bend)
        chains.append([*chain, target])
    return rows, chains


def _places(
    rows: list[list[str]], links: list[tuple[str, str]], ranks: Mapping[str, int]
) -> dict[str, float]:
    above: dict[str, list[str]] = {node: [] for row in rows for node in row}
    below: dict[str, list[str]] = {node: [] for row in rows for node in row}
    for source, target in links:
        above[target].append(source)
        below[source].append(target)
    xs: dict[str, float] = {}
    for row in rows:
        _spread(row, dict.fromkeys(row, 0.0), ranks, xs)
    for sweep in range(2 * _SWEEPS):
        downwards = sweep % 2 == 0
        neighbours = above if downwards else below
        for row in rows if downwards else reversed(rows):
            wished = {node: _mean([xs[n] for n in neighbours[node]], xs[node]) for node in row}
            if sweep < _SWEEPS:  # then the order stays, and only the places settle
                row.sort(key=lambda node: wished[node])
            _spread(row, wished, ranks, xs)
    return xs


def _mean(values: list[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _half(node: str, ranks: Mapping[str, int]) -> float:
    return (1.0 if node in ranks else _BEND_WIDTH) / 2


def _spread(
    row: list[str], wished: Mapping[str, float], ranks: Mapping[str, int], xs: dict[str, float]
) -> None:
    """Place a rank in its order, nearest to the wishes in the sense of least squares.

    With the distances taken off, that is isotonic regression: neighbours that would come too close
    or change sides are pooled to their mean.
    """
    offsets: list[float] = []
    end = 0.0
    for node in row:
        offsets.append(end + _half(node, ranks))
        end += 2 * _half(node, ranks)
    pools: list[tuple[float, int]] = []
    for node, offset in zip(row, offsets, strict=True):
        mean, count = wished[node] - offset, 1
        while pools and pools[-1][0] > mean:
            other, others = pools.pop()
            mean = (mean * count + other * others) / (count + others)
            count += others
        pools.append((mean, count))
    free = [mean for mean, count in pools for _ in range(count)]
    for node, start, offset in zip(row, free, offsets, strict=True):
        xs[node] = start + offset


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
