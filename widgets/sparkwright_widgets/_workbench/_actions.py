"""Determine the next step and the action of the primary button. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

from ._section import SectionState

# Step -> the button of its part that does the work of the step, and the primary button's label.
OWN = {
    "data": ("load_button", "Load data"),
    "train": ("start_button", "Start"),
    "evaluate": ("evaluate_button", "Evaluate"),
    "models": ("save_button", "Save model"),
    "file": ("save_button", "Save experiment"),
}
_CHOSEN = ("data", "network", "master")  # steps whose problems prevent a run
_NEED_A_NETWORK = ("evaluate", "models")


@dataclass(frozen=True, kw_only=True, slots=True)
class Action:
    """The action of the primary button, its label, and why it is disabled (empty: enabled)."""

    does: Literal["own", "open", "stop"]  # do the work of `step`, open that step, or stop the run
    step: str
    label: str
    reason: str = ""


def first_step(steps: Mapping[str, SectionState]) -> str:
    """The initial step: one with a problem, else the first with work to do."""
    wrong = (name for name, state in steps.items() if state == "problem")
    todo = (name for name in OWN if steps[name] in ("todo", "running"))
    return next(wrong, next(todo, "train"))


def next_step(here: str, steps: Mapping[str, SectionState], seen: Collection[str]) -> str:
    """A step with a problem, else the next step after `here` that needs work or was not opened."""
    for name in _CHOSEN:
        if steps[name] == "problem" and name != here:
            return name
    names = list(steps)
    after = names[names.index(here) + 1 :]
    needed = (name for name in after if steps[name] != "ok" or name not in seen)
    return next(needed, after[0] if after else here)


def next_action(
    here: str,
    steps: Mapping[str, SectionState],
    titles: Mapping[str, str],
    *,
    seen: Collection[str] = (),
    running: bool = False,
    stopping: bool = False,
    current: bool = False,
    reason: str | None = None,
) -> Action:
    """Return the next action at the step `here`.

    Args:
        here: the current step.
        steps: the state of each step, in order.
        titles: the title of each step.
        seen: the steps that were opened.
        running: whether a run starts or is in progress.
        stopping: whether that run is stopping.
        current: whether there is a network to evaluate and to save.
        reason: why no run can start; None if it can.

    Example:
        >>> steps = {"data": "ok", "network": "ok", "master": "ok", "train": "todo", "file": "ok"}
        >>> next_action("data", steps, {"train": "Train"}, seen=steps).label
        'Next: train'
    """
    if running:
        label = "Stopping" if stopping else "Stop"
        why = "The run ends after the current round." if stopping else ""
        return Action(does="stop", step="train", label=label, reason=why)
    if here in _NEED_A_NETWORK and not current:
        return _opening("train", titles)
    if here in OWN and (steps[here] != "ok" or here == "file"):
        other = next((n for n in _CHOSEN if steps[n] == "problem" and n != here), None)
        if here == "train" and other is not None:
            return _opening(other, titles)
        prevents = here == "train" or (here == "data" and steps[here] == "problem")
        why = (reason or "") if prevents else ""
        return Action(does="own", step=here, label=OWN[here][1], reason=why)
    action = _opening(next_step(here, steps, seen), titles)
    if steps[here] != "problem":
        return action
    return Action(
        does="open", step=action.step, label=action.label, reason=reason or "Fix the problem first."
    )


def _opening(step: str, titles: Mapping[str, str]) -> Action:
    return Action(does="open", step=step, label=f"Next: {titles[step].lower()}")
