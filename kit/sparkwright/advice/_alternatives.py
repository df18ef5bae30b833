"""Training masters that may keep workers busier than the given one, the safest first; pure."""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any, cast

from sparkwright.masters import (
    OuterOptimizer,
    ParameterAveragingTrainingMaster as Averaging,
    SharedTrainingMaster,
    TrainingMaster,
)
from sparkwright.masters.plan import frequency_in
from sparkwright.python_code import to_code

from ._load import Load, ScalingPoint


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """A training master with its predicted performance and risks.

    Attributes:
        master: the training master.
        settings: options that differ from the first alternative's, as code; "" of the first one.
        sent_bytes: bytes that each worker sends per exchange: an averaging, or a message.
        minibatches: per worker between two exchanges.
        point: the predicted interval between exchanges.
        risks: possible costs, in accuracy for example, one sentence each.
        added: options added to an earlier alternative, or "as given".
    """

    master: TrainingMaster
    settings: str
    sent_bytes: int
    minibatches: int
    point: ScalingPoint
    risks: tuple[str, ...]
    added: str

    @property
    def minibatch_s(self) -> float:
        """Seconds of a minibatch, including its share of the exchange."""
        return self.point.interval_s / self.minibatches

    @property
    def efficiency(self) -> float:
        """Fraction of the time in which workers train, from 0 to 1."""
        return self.point.efficiency


def alternatives_to(given: TrainingMaster, workers: int, load: Load) -> Iterator[Alternative]:
    """Yield the given training master, then others in decreasing order of safety."""

    def predicted(each: TrainingMaster, risks: tuple[str, ...], added: str) -> Alternative:
        return Alternative(
            master=each,
            settings=_settings(each, given),
            sent_bytes=load.exchange(each, workers).sent_bytes,
            minibatches=load.minibatches(each),
            point=load.point(each, workers),
            risks=risks,
            added=added,
        )

    last = predicted(given, (), "as given")
    found = [given]
    yield last
    for options, risk in _CHANGES:
        changed = _changed(last.master, options)
        if isinstance(changed, Averaging) and changed.averaging_delay:
            # The shortest delay that hides an exchange, if possible.
            wanted = ceil(load.exchange(changed, workers).wire_s / (load.step_s or 1))
            delay = max(1, min(frequency_in(changed.averaging_frequency), wanted))
            changed = replace(changed, averaging_delay=delay)
        if changed is None or changed in found:
            continue
        found.append(changed)
        is_same_class = type(changed) is type(last.master)
        sign = "+ " if is_same_class and last.master is not given else ""
        added = sign + _settings(changed, last.master)
        new = predicted(changed, (*last.risks, risk), added)
        yield new
        if not is_same_class or new.efficiency > last.efficiency:
            last = new


_OUTER = "outer_optimizer"
# Changes, the safest first, with their risks.
_CHANGES: tuple[tuple[dict[str, Any], str], ...] = (
    ({"communication": "ring"}, "Executors must be able to open ports to one another."),
    ({"minibatches_per_message": 10}, "Updates of several minibatches arrive together, and late."),
    ({"class": Averaging}, "All workers wait for the slowest."),
    ({"updater": "local"}, "Local moments: as accurate if the workers' data are similar."),
    (
        {"exchange_precision": "bfloat16"},
        "Rounded to 3 digits; the error is added to the next message.",
    ),
    (
        {"averaging_delay": 1},
        "Averages are applied late: watch the loss, and lower the learning rate.",
    ),
    ({"averaging_frequency": 10}, "Replicas drift apart a little more."),
    (
        {"averaging_frequency": 20, _OUTER: OuterOptimizer()},
        "Replicas drift far apart: compare the accuracy with frequent averaging.",
    ),
    ({"averaging_frequency": 50, _OUTER: OuterOptimizer()}, "Replicas drift even farther apart."),
    ({"exchange_precision": "int8"}, "Rounded more; the error is added to the next message."),
    ({"class": SharedTrainingMaster}, "Updates arrive late; results differ from run to run."),
)
# Values of options in increasing order; changes only go to later values.
_FURTHER = {
    "communication": ("spark", "ring"),
    "updater": ("average", "local"),
    "exchange_precision": ("float32", "bfloat16", "int8"),
}


def _changed(master: TrainingMaster, options: dict[str, Any]) -> TrainingMaster | None:
    """Return the master with these options; None if it lacks them or already has them."""
    if "class" in options:
        kind = options["class"]
        return None if isinstance(master, kind) else kind(**_common(master))
    name, value = next(iter(options.items()))
    if not hasattr(master, name) or getattr(master, "piece_minibatches", None):
        return None
    was = getattr(master, name)
    if isinstance(was, dict):  # averaging frequency by epoch: the last one
        schedule = cast("dict[int, int]", was)
        *_, (first, was) = schedule.items()
        options = {**options, name: {**schedule, first: value}}
    order = _FURTHER.get(name, ())
    if was in order:
        if order.index(value) <= order.index(was):
            return None
    elif order or value <= (was or 0):
        return None
    if isinstance(master, Averaging):
        options = {**options, "outer_optimizer": master.outer_optimizer or options.get(_OUTER)}
        if name in ("updater", "exchange_precision", "averaging_delay"):
            # They need both, even if these alone give no speedup.
            updater = "local" if master.updater == "average" else master.updater
            options |= {"communication": "ring", "updater": updater}
    return replace(master, **options)


def _settings(master: TrainingMaster, given: TrainingMaster) -> str:
    """Return the options that differ, as code."""
    if type(master) is not type(given):
        changed = _settings(master, type(master)(**_common(given)))
        return f"{type(master).__name__}({changed})"
    values = {each.name: getattr(master, each.name) for each in fields(master)}
    return ", ".join(
        f"{name}={to_code(value)}"
        for name, value in values.items()
        if value != getattr(given, name)
    )


def _common(master: TrainingMaster) -> dict[str, Any]:
    """Return the options that all training masters have."""
    return {each.name: getattr(master, each.name) for each in fields(TrainingMaster)}
