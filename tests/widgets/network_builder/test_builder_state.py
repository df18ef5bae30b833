from dataclasses import replace

from hypothesis import given, strategies as st

from sparkwright.networks import LayerSpec, NetworkSpec
from sparkwright_widgets._network_builder._builder_state import (
    STEPS_KEPT,
    BuilderState,
)


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
def test_undoing_everything_leads_back_to_the_start(actions):
    state = follow(actions)
    while state.past:
        state = state.undone()
    assert state.spec == spec("start")


@given(edits)
def test_redo_takes_back_an_undo(actions):
    state = replace(follow(actions), typing="")
    if state.past:
        assert state.undone().redone().spec == state.spec
        assert state.undone().redone().past == state.past


@given(edits)
def test_the_row_in_hand_exists(actions):
    state = follow(actions)
    assert state.selected is None or 0 <= state.selected < len(state.spec.layers)


def test_what_is_typed_into_one_field_is_undone_in_one_step():
    state = BuilderState(spec=spec("a"))
    for name in ("b", "bi", "big"):
        state = state.changed(spec(name), "rename", typing="name 0")
    assert state.undone().spec == spec("a")


def test_typing_into_another_field_is_another_step():
    state = BuilderState(spec=spec("a")).changed(spec("b"), "rename", typing="name 0")
    state = state.changed(spec("c"), "rename", typing="name 1")
    assert state.undone().spec == spec("b")


def test_typing_begins_a_new_step_after_the_row_was_left():
    state = BuilderState(spec=spec("a")).changed(spec("b"), "rename", typing="name 0")
    state = state.selecting(0).changed(spec("c"), "rename", typing="name 0")
    assert state.undone().spec == spec("b")


def test_a_change_that_changes_nothing_cannot_be_undone():
    state = BuilderState(spec=spec("a")).changed(spec("a"), "nothing")
    assert not state.past


def test_a_change_forgets_what_could_be_redone():
    state = BuilderState(spec=spec("a")).changed(spec("b"), "rename").undone()
    assert state.future[-1].what == "rename"
    assert not state.changed(spec("c"), "rename").future


def test_steps_are_bounded_and_the_newest_are_kept():
    state = BuilderState(spec=spec("a"))
    for number in range(STEPS_KEPT + 10):
        state = state.changed(spec(f"x{number}"), f"step {number}")
    assert len(state.past) == STEPS_KEPT
    assert state.past[-1].what == f"step {STEPS_KEPT + 9}"


def test_undo_puts_the_row_in_hand_back():
    state = BuilderState(spec=spec("a", "b", "c")).selecting(2)
    state = state.changed(spec("a"), "delete two", selected=0)
    assert state.undone().selected == 2
