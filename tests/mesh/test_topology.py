import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.support.mesh import depth

from sparkwright.errors import ConfigurationError
from sparkwright.mesh.topology import MODES, Topology

MEMBERS = st.lists(st.integers(0, 10_000), unique=True, min_size=1, max_size=200).map(tuple)


@given(members=MEMBERS, mode=st.sampled_from(MODES), most=st.integers(1, 9))
def test_all_hang_together_in_one_tree(members, mode, most):
    tree = Topology(members=members, mode=mode, max_downstreams=most)
    assert tree.upstream(members[0]) is None
    steps = {members[0]: 0}
    for member in members:
        for below in tree.downstreams(member):
            assert tree.upstream(below) == member
            assert below not in steps, "nobody hangs twice"
            steps[below] = steps[member] + 1
        assert mode == "plain" or len(tree.downstreams(member)) <= most
        assert set(tree.neighbors(member)) == {
            *tree.downstreams(member),
            *({tree.upstream(member)} - {None}),
        }
    assert set(steps) == set(members)
    assert depth(tree) == max(steps.values())


@cases("size, steps", (1, 0), (2, 1), (9, 1), (10, 2), (73, 2), (74, 3), (4681, 4), (8192, 5))
def test_eight_below_each_reach_far(size, steps):
    assert depth(Topology(members=tuple(range(size)), mode="mesh")) == steps


def test_plain_topology_connects_all_workers_to_the_first():
    tree = Topology(members=(7, *range(5)), mode="plain")
    assert tree.downstreams(7) == (0, 1, 2, 3, 4)
    assert depth(tree) == 1


@cases(
    "options, text",
    ({"mode": "ring"}, "`mode` must be one of 'plain', 'mesh'. Received: mode='ring'."),
    (
        {"max_downstreams": 0},
        "`max_downstreams` must be an integer of at least 1. Received: max_downst",
    ),
    ({"members": (1, 2, 1)}, "`members` must be unique. Received: members=(1, 2"),
)
def test_invalid_trees_raise(options, text):
    with pytest.raises(ConfigurationError) as refused:
        Topology(**{"members": (1, 2), "mode": "mesh", **options})
    assert str(refused.value).startswith(text)
