from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright_widgets._network_builder._graph import columns, ranks


@st.composite
def graphs(draw):
    names = [f"layer_{i}" for i in range(draw(st.integers(1, 14)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True)) if i else []
        for i, name in enumerate(names)
    }


@given(graphs())
def test_edges_use_columns_without_other_layers(graph):
    places, rows = columns(graph), list(graph)
    assert list(places) == rows
    for target, taken in graph.items():
        for source in taken:
            between = rows[rows.index(source) + 1 : rows.index(target)]
            assert places[source] not in [places[name] for name in between]
    assert set(places.values()) == set(range(max(places.values()) + 1))


@given(graphs())
def test_ranks_place_branches_side_by_side_and_boxes_off_edges(graph):
    column = columns(graph)
    rank = ranks(graph, column)
    assert len({(column[name], rank[name]) for name in graph}) == len(graph)
    for target, taken in graph.items():
        for source in taken:
            assert rank[source] < rank[target]
            for other in graph:
                is_between = rank[source] < rank[other] < rank[target]
                assert not (is_between and column[other] == column[source])


def test_two_branches_are_drawn_side_by_side():
    graph = {"image": [], "conv": ["image"], "table": [], "sum": ["conv", "table"], "out": ["sum"]}
    column = columns(graph)
    assert ranks(graph, column) == {"image": 0, "conv": 1, "table": 0, "sum": 2, "out": 3}
    assert column["table"] == 1


@cases(
    "graph, places",
    ({"a": [], "b": ["a"], "c": ["b"]}, {"a": 0, "b": 0, "c": 0}),
    ({"a": ["b", "ghost"], "b": ["a"]}, {"a": 0, "b": 0}),  # not there, or later
    ({}, {}),
)
def test_a_chain_is_one_straight_column(graph, places):
    assert columns(graph) == places
