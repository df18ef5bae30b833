from itertools import pairwise

from hypothesis import given, strategies as st

from sparkwright_widgets._network_builder._graph import graph_layout


@st.composite
def graphs(draw):
    names = [f"layer_{i}" for i in range(draw(st.integers(1, 14)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True)) if i else []
        for i, name in enumerate(names)
    }


def test_a_chain_is_one_straight_column():
    layout = graph_layout({"a": [], "b": ["a"], "c": ["b"]})
    assert dict(layout.places) == {"a": (0.5, 0), "b": (0.5, 1), "c": (0.5, 2)}
    assert (layout.width, layout.ranks) == (1.0, 3)


def test_a_skip_connection_runs_beside_the_layers_that_it_skips():
    layout = graph_layout({"a": [], "b": ["a"], "c": ["b"], "sum": ["c", "a"]})
    [bends] = [points[1:-1] for source, target, points in layout.edges if source + target == "asum"]
    beside = [abs(x - layout.places[name][0]) for (x, _), name in zip(bends, "bc", strict=True)]
    assert min(beside) > 0.5  # half a layer's width


def test_an_edge_to_what_is_not_there_is_left_out():
    assert graph_layout({"a": ["b", "ghost"], "b": ["a"]}).edges == (
        ("a", "b", ((0.5, 0), (0.5, 1))),
    )


def test_nothing_needs_no_room():
    layout = graph_layout({})
    assert (layout.places, layout.edges, layout.width, layout.ranks) == ({}, (), 0.0, 0)


@given(graphs())
def test_layers_do_not_overlap_and_lie_within_the_width(graph):
    layout = graph_layout(graph)
    assert set(layout.places) == set(graph)
    by_rank = {}
    for x, rank in layout.places.values():
        assert 0.5 - 1e-9 <= x <= layout.width - 0.5 + 1e-9
        by_rank.setdefault(rank, []).append(x)
    assert set(by_rank) == set(range(layout.ranks))
    for xs in map(sorted, by_rank.values()):
        assert all(right - left > 1 - 1e-9 for left, right in pairwise(xs))


@given(graphs())
def test_every_edge_leads_down_one_rank_at_a_time_from_box_to_box(graph):
    layout = graph_layout(graph)
    assert {(source, target) for source, target, _ in layout.edges} == {
        (source, target) for target, taken in graph.items() for source in taken
    }
    for source, target, points in layout.edges:
        assert points[0] == layout.places[source]
        assert points[-1] == layout.places[target]
        ranks = [rank for _, rank in points]
        assert ranks == list(range(ranks[0], ranks[-1] + 1))


@given(graphs())
def test_bends_keep_clear_of_the_boxes_in_their_rank(graph):
    layout = graph_layout(graph)
    for _, _, points in layout.edges:
        for x, rank in points[1:-1]:
            boxes = [place for place, its_rank in layout.places.values() if its_rank == rank]
            assert all(abs(x - box) > 0.5 for box in boxes)
