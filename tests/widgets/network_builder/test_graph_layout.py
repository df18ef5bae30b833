from hypothesis import given, strategies as st

from sparkwright_widgets._network_builder._graph import columns


@st.composite
def graphs(draw):
    names = [f"layer_{i}" for i in range(draw(st.integers(1, 14)))]
    return {
        name: draw(st.lists(st.sampled_from(names[:i]), max_size=3, unique=True)) if i else []
        for i, name in enumerate(names)
    }


def test_a_chain_is_one_straight_column():
    assert columns({"a": [], "b": ["a"], "c": ["b"]}) == {"a": 0, "b": 0, "c": 0}


def test_a_skip_connection_runs_beside_the_layers_that_it_skips():
    places = columns({"a": [], "b": ["a"], "c": ["b"], "sum": ["c", "a"], "end": ["sum"]})
    assert places["a"] not in (places["b"], places["c"])


def test_an_input_that_is_not_there_or_comes_later_counts_for_nothing():
    assert columns({"a": ["b", "ghost"], "b": ["a"]}) == {"a": 0, "b": 0}


def test_no_layers_have_no_columns():
    assert columns({}) == {}


@given(graphs())
def test_lines_lead_down_a_column_that_no_other_layer_uses(graph):
    places, rows = columns(graph), list(graph)
    assert list(places) == rows
    for target, taken in graph.items():
        for source in taken:
            between = rows[rows.index(source) + 1 : rows.index(target)]
            assert places[source] not in [places[name] for name in between]
    assert set(places.values()) == set(range(max(places.values()) + 1))
