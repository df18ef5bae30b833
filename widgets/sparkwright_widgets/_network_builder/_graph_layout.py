"""Where the layers of a network are drawn: ranks from top to bottom, few crossings. Pure.

The layered drawing of Sugiyama, Tagawa and Toda ("Methods for Visual Understanding of
Hierarchical System Structures", 1981) in its plainest form: longest paths give the ranks, an edge
over several ranks gets a bend in each, neighbours' means give the order within a rank, and the
places along it are the nearest to those means that keep their distance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
