from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from sparkwright.networks import LayerSpec, NetworkSpec
from sparkwright_widgets._network_builder._builder_state import STEPS_KEPT, BuilderState


def spec(*names):
    return NetworkSpec(layers=tuple(LayerSpec(kind="Flatten", name=name) for name in names))


edits = st.lists(st.sampled_from(["change", "type a", "type b", "undo", "redo", "select"]))


def follow(actions):
    """The state after some actions, each change another network."""
    state = BuilderState(spec=spec("start"))
    for number, action in enumerate(actions):
        if action == "undo":
            state = state.undone()
        elif action == "redo":
            state = state.redone()
        elif action == "select":
            state = state.selecting(number % 3)
        else:
            typing = action[5:] if action != "change" else ""
            state = state.changed(spec("start", f"x{number}"), f"step {number}", typing=typing)
    return state


@given(edits)
def test_undoing_all_steps_restores_the_initial_state(actions):
    state = follow(actions)
    assert state.selected is None or 0 <= state.selected < len(state.spec.layers)
    while state.past:
        state = state.undone()
    assert state.spec == spec("start")


@given(edits)
def test_redo_reverts_an_undo(actions):
    state = replace(follow(actions), typing="")
    if state.past:
        assert state.undone().redone().spec == state.spec
        assert state.undone().redone().past == state.past


def test_steps_are_bounded_and_the_newest_are_kept():
    state = BuilderState(spec=spec("a"))
    for number in range(STEPS_KEPT + 10):
        state = state.changed(spec(f"x{number}"), f"step {number}")
    assert len(state.past) == STEPS_KEPT
    assert state.past[-1].what == f"step {STEPS_KEPT + 9}"


@pytest.mark.parametrize(
    ("fields", "left", "remaining"),
    [(["x", "x", "x"], False, 0), (["x", "y"], False, 1), (["x", "x"], True, 1)],
)
def test_edits_of_one_field_are_undone_in_one_step(fields, left, remaining):
    state = BuilderState(spec=spec("a"))
    for number, field in enumerate(fields):
        state = state.selecting(0) if left else state
        state = state.changed(spec(f"b{number}"), "rename", typing=field)
    assert len(state.undone().past) == remaining


def test_change_clears_redo_and_undo_restores_the_selected_row():
    state = BuilderState(spec=spec("a", "b", "c")).selecting(2)
    assert not state.changed(state.spec, "nothing").past
    undone = state.changed(spec("a"), "delete two", selected=0).undone()
    assert undone.selected == 2
    assert undone.future[-1].what == "delete two"
    assert not undone.changed(spec("b"), "rename").future
