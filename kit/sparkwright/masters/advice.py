"""Recommend the safest training master that keeps workers busy, with alternatives; pure."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import ceil
from typing import Any, cast

from sparkwright.configuration import to_code
from sparkwright.evaluation.reports import Report, Table
from sparkwright.options import MAX_BYTES, check_count, check_number, check_positive
from sparkwright.timeline.summary import seconds_text, size_text

from ._shared_training import SharedTrainingMaster
from .cost import (
    ScalingCosts,
    ScalingPoint,
    even_plan,
    exchange,
    interval,
    minibatches_per_exchange,
)
from .outer_optimizer import OuterOptimizer
from .parameter_averaging import ParameterAveragingTrainingMaster as Averaging
from .plan import TrainingPlan, frequency_in
from .training_master import TrainingMaster

_ALIKE = 0.01  # smaller differences in efficiency do not count: the safer setting is preferred
_FIGURES = ("settings", "sent_bytes", "minibatch_s", "efficiency", "memory_bytes")
_COLUMNS = ("settings", "sent per exchange", "minibatch", "efficiency", "memory", "possible cost")


@dataclass(frozen=True, kw_only=True, slots=True)
class Alternative:
    """A training master with its predicted performance and risks.

    Attributes:
        master: the training master.
        settings: options that differ from the first alternative's, as code; "" of the first one.
        sent_bytes: bytes that each worker sends per exchange: an averaging, or a message.
        minibatches: per worker between two exchanges.
        point: the predicted interval between exchanges.
        memory_bytes: additional memory of each worker for exchanges, compared with the first
            alternative.
        risks: possible costs, in accuracy for example, one sentence each.
        added: options added to an earlier alternative, or "as given".
    """

    master: TrainingMaster
    settings: str
    sent_bytes: int
    minibatches: int
    point: ScalingPoint
    memory_bytes: int
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


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class Advice:
    """The recommended training master and alternatives; see `advise`.

    Attributes:
        alternatives: the given training master, then others in decreasing order of safety.
        recommended: index of the recommended alternative.
        target: the efficiency to reach.
        workers: number of workers.
        step_s: seconds of one minibatch on one worker.
        vector_bytes: size of all averaged values as float32, including the parameters.
        updater_bytes: size of the optimizer's state.
        costs: the constants of the prediction.
        sources: measured and assumed values, one sentence each.
    """

    alternatives: tuple[Alternative, ...]
    recommended: int
    target: float
    workers: int
    step_s: float
    vector_bytes: int
    updater_bytes: int
    costs: ScalingCosts
    sources: tuple[str, ...] = ()

    @property
    def best(self) -> Alternative:
        """The recommended alternative."""
        return self.alternatives[self.recommended]

    @property
    def master(self) -> TrainingMaster:
        """The recommended training master."""
        return self.best.master

    @property
    def reaches_target(self) -> bool:
        """Whether the recommended training master is predicted to reach the target."""
        return self.best.efficiency >= self.target

    @property
    def reason(self) -> str:
        """The recommendation in one or two sentences."""
        first, best = self.alternatives[0], self.best
        if self.workers == 1:
            return "Keep the settings: one worker exchanges nothing."
        if not self.reaches_target:
            what = f"`{best.settings}` is best" if best.settings else "the given settings are best"
            return (
                f"No setting reaches {self.target:.0%}; {what}, with {best.efficiency:.0%}. "
                "Larger minibatches, fewer workers or a faster network help more."
            )
        if not best.settings:
            return f"Keep the settings: workers train {best.efficiency:.0%} of the time."
        return (
            f"Set `{best.settings}`: workers train {best.efficiency:.0%} of the time instead of "
            f"{first.efficiency:.0%}. It is the safest setting that reaches {self.target:.0%}."
        )

    @property
    def table(self) -> Any:
        """Return a pandas DataFrame with one row per alternative."""
        import pandas as pd

        return pd.DataFrame(self.to_dict()["alternatives"])

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable fields."""
        names = ("target", "workers", "step_s", "vector_bytes", "updater_bytes", "reason")
        between = self.costs.exchange
        return {
            **{name: getattr(self, name) for name in names},
            "bandwidth_bytes_per_s": between.bandwidth_bytes_per_s,
            "latency_s": between.latency_s,
            "sources": list(self.sources),
            "alternatives": [
                {
                    "recommended": each is self.best,
                    **{name: getattr(each, name) for name in _FIGURES},
                    "risks": " ".join(each.risks),
                }
                for each in self.alternatives
            ],
        }

    def report(self) -> Report:
        """Return the recommendation, its basis, and a table of the alternatives."""
        between = self.costs.exchange
        facts = (
            f"{self.workers:,} workers, minibatches of {seconds_text(self.step_s)}, "
            f"{size_text(self.vector_bytes)} of parameters, "
            f"{between.bandwidth_bytes_per_s / 1.25e8:.3g} Gbit/s, "
            f"latency {seconds_text(between.latency_s)}."
        )
        rows = [
            (
                f"{'→' if each is self.best else ' '} {each.added}",
                size_text(each.sent_bytes),
                seconds_text(each.minibatch_s),
                f"{each.efficiency:.0%}",
                f"{'+' if each.memory_bytes >= 0 else '-'}{size_text(abs(each.memory_bytes))}",
                " ".join(each.risks[-1:]),
            )
            for each in self.alternatives
        ]
        table = Table(rows=[_COLUMNS, *rows], text_columns={5})
        return Report(title=self.reason, notes=[facts, *self.sources], tables=[table])

    def __repr__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return self.report().html()


def advise(
    master: TrainingMaster | None = None,
    *,
    workers: int,
    step_s: float,
    vector_bytes: int,
    updater_bytes: int = 0,
    costs: ScalingCosts | None = None,
    target: float = 0.9,
    sources: Sequence[str] = (),
) -> Advice:
    """Recommend the safest training master that reaches an efficiency.

    The order of safety: the settings as given, moments kept by each worker, bfloat16, averaging
    beside training, fewer averagings, 8-bit integers, gradient sharing. A change that does
    not speed up training is not part of later alternatives. If no alternative reaches the target,
    the most efficient one is recommended, or a safer one within 1 %.

    Args:
        master: initial training master, whose other options are kept. Default None: parameter
            averaging.
        workers: number of workers.
        step_s: seconds of one minibatch on one worker; `sw.measure_step` measures it.
        vector_bytes: size of all averaged values as float32, including the parameters.
        updater_bytes: size of the optimizer's state; default 0.
        costs: constants of the prediction, such as the bandwidth; default None: measured constants
            and 10 Gbit/s.
        target: the efficiency to reach, from 0 to 1; default 0.9.
        sources: measured and assumed values, shown with the advice.

    Raises:
        ConfigurationError: if an argument is invalid.

    Example:
        >>> from sparkwright.masters import ExchangeCosts, ScalingCosts
        >>> slow = ScalingCosts(exchange=ExchangeCosts(bandwidth_bytes_per_s=1.25e8))
        >>> found = advise(
        ...     workers=8, step_s=0.1, vector_bytes=2_000_000, updater_bytes=4_000_000, costs=slow
        ... )
        >>> found.best.settings, round(found.best.efficiency, 2)
        ('updater="local"', 0.94)
    """
    check_count("workers", workers)
    check_positive("step_s", step_s)
    check_count("vector_bytes", vector_bytes, maximum=MAX_BYTES)
    check_count("updater_bytes", updater_bytes, minimum=0, maximum=MAX_BYTES)
    check_number("target", target, above=0, maximum=1)
    given, costs = master or Averaging(), costs or ScalingCosts()
    given_bytes = _memory_bytes(given, vector_bytes, updater_bytes)

    def plan_of(each: TrainingMaster) -> TrainingPlan:
        size = each.exchange.averaged_bytes(vector_bytes, updater_bytes)
        return even_plan(each, workers, step_s, size)

    def predicted(each: TrainingMaster, risks: tuple[str, ...], added: str) -> Alternative:
        return Alternative(
            master=each,
            settings=_settings(each, given),
            sent_bytes=exchange(each, plan_of(each), costs).sent_bytes,
            minibatches=minibatches_per_exchange(each, step_s, vector_bytes),
            point=interval(each, plan_of(each), step_s, costs),
            memory_bytes=_memory_bytes(each, vector_bytes, updater_bytes) - given_bytes,
            risks=risks,
            added=added,
        )

    last = predicted(given, (), "as given")
    found = [last]
    for options, risk in _CHANGES:
        changed = _changed(last.master, options)
        if isinstance(changed, Averaging) and changed.averaging_delay:
            # The shortest delay that hides an exchange, if possible.
            wanted = ceil(exchange(changed, plan_of(changed), costs).wire_s / step_s)
            delay = max(1, min(frequency_in(changed.averaging_frequency), wanted))
            changed = replace(changed, averaging_delay=delay)
        if changed is None or changed in [each.master for each in found]:
            continue
        is_same_class = type(changed) is type(last.master)
        sign = "+ " if is_same_class and last is not found[0] else ""
        added = sign + _settings(changed, last.master)
        found.append(predicted(changed, (*last.risks, risk), added))
        if not is_same_class or found[-1].efficiency > last.efficiency:
            last = found[-1]
    most = max(each.efficiency for each in found)
    enough = target if most >= target else (1 - _ALIKE) * most
    return Advice(
        alternatives=tuple(found),
        recommended=next(n for n, each in enumerate(found) if each.efficiency >= enough),
        target=target,
        workers=workers,
        step_s=step_s,
        vector_bytes=vector_bytes,
        updater_bytes=updater_bytes,
        costs=costs,
        sources=tuple(sources),
    )


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


def _memory_bytes(master: TrainingMaster, vector_bytes: int, updater_bytes: int) -> int:
    """Return the approximate bytes of a worker's vectors for exchanges."""
    if not isinstance(master, Averaging):
        return 3 * vector_bytes  # sent, residual and received vectors
    size = master.exchange.averaged_bytes(vector_bytes, updater_bytes)
    vectors = 2 + bool(master.averaging_delay) + master.exchange.is_rounded
    return vectors * size + 2 * master.velocity_size(vector_bytes)


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
