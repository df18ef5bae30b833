"""The forecast of a run with a training master, as text and HTML. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from sparkwright.advice import Advice, plan_memory, predict
from sparkwright.errors import ConfigurationError
from sparkwright.masters import ScalingCosts, SharedTrainingMaster, TrainingMaster
from sparkwright.networks import NetworkSpec
from sparkwright.networks.estimate import training_sizes
from sparkwright.options import Option
from sparkwright.partitions import plan_repartition
from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._format import bytes_text, count_text, counted, escaped
from sparkwright_widgets._table import html_table

from ._remarks import Remark, remarks_on

LANES = 8  # maximum number of workers drawn
_MOST_ROUNDS = 40  # drawn as separate bars
# Assumptions of the forecast about the machines.
ASSUMPTIONS = (
    Option(
        name="step_ms",
        kind="float",
        optional=True,
        above=0,
        none_text="not known",
        unit="ms",
        label="Time per minibatch",
        help="Measure it with the button below, or enter your own measurement on one worker.",
    ),
    Option(
        name="bandwidth_gbit",
        kind="float",
        default=10.0,
        above=0,
        unit="Gbit/s",
        label="Network bandwidth per machine",
        help="10 is typical within a cluster; within one machine it is about 20.",
    ),
)
_WORDS = {
    "well": ("✓", "Scales well"),
    "partly": ("◐", "Helps partly"),
    "hardly": ("✕", "Hardly helps"),
    "unknown": ("?", "Not known yet"),
}


def slots_problem(master: TrainingMaster, slots: int | None, *, parallel: bool) -> str:
    """The error if there are more workers than Spark task slots (None: unknown); else empty."""
    wanted = master.workers
    if parallel or slots is None or wanted is None or wanted <= slots:
        return ""
    return (
        f"{count_text(wanted)} workers need one task slot each; Spark has {count_text(slots)}. "
        "Use fewer workers, or start Spark with more executors."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Surroundings:
    """Facts about the data, network and machines of a training master; None: unknown."""

    rows: tuple[int, ...] | None = None  # examples of each partition
    slots: int | None = None  # task slots of Spark
    cores: int = 1  # of this machine
    vector_bytes: int | None = None  # of the network's parameters
    updater_bytes: int = 0  # of its optimizer's state
    network: Any = None  # a valid NetworkSpec or a built Keras model
    step_s: float | None = None  # of one minibatch
    bandwidth_bytes_per_s: float = 1.25e9  # of each machine

    def with_network(self, network: Any) -> "Surroundings":
        """Return a copy with the sizes of a NetworkSpec or a built Keras model; None: unknown."""
        is_valid = network.analysis.ok if isinstance(network, NetworkSpec) else True
        try:
            sizes = training_sizes(network, batch_size=1) if is_valid else None
        except ConfigurationError:  # not built yet
            sizes = None
        if sizes is None:
            return replace(self, network=None, vector_bytes=None, updater_bytes=0)
        return replace(
            self,
            network=network,
            vector_bytes=sizes.parameters,
            updater_bytes=sizes.optimizer,
        )

    def workers(self, master: TrainingMaster, *, parallel: bool) -> int | None:
        """The number of workers; None: unknown."""
        if parallel:
            return master.workers or self.cores
        if isinstance(master, SharedTrainingMaster):
            known = self.slots is not None or master.workers or master.workers_per_node
            return master.worker_count(slots=self.slots, executors=None) if known else None
        return master.workers or self.slots

    def advice(self, master: TrainingMaster, *, parallel: bool = False) -> Advice | None:
        """The forecast and recommended settings; None if the number of workers is unknown."""
        workers = self.workers(master, parallel=parallel)
        if workers is None:
            return None
        rows: Sequence[int] | None = None
        if self.rows is not None and sum(self.rows):
            plan = plan_repartition(
                self.rows,
                workers=workers,
                mode="always" if parallel else master.repartition,
                strategy="balanced" if parallel else master.repartition_strategy,
                seed=master.seed or 0,
            )
            rows = plan.target_counts
        return predict(
            master,
            rows=rows,
            workers=workers,
            vector_bytes=self.vector_bytes or None,
            updater_bytes=self.updater_bytes,
            step_s=self.step_s,
            costs=ScalingCosts().with_network(self.bandwidth_bytes_per_s),
            memory=None
            if self.network is None
            else plan_memory(self.network, master, workers=workers),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ForecastSection:
    """A forecast and advice as text and HTML."""

    found: Advice | None  # None: nothing is known of the run
    slots: int | None = None  # for a run on Spark
    cores: int | None = None  # for a run on one machine

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on the plan, such as workers without data."""
        return () if self.found is None else tuple(remarks_on(self.found, self.slots, self.cores))

    @property
    def figures(self) -> list[tuple[str, str]]:
        return [] if self.found is None else _figures(self.found)

    @property
    def verdict(self) -> tuple[str, str, str]:
        """An icon, a short verdict, and a sentence with the calculation."""
        if self.found is None:
            return *_WORDS["unknown"], "The number of workers is not known. Set it, or start Spark."
        return *_WORDS[self.found.pays], self.found.verdict

    def html(self, *, with_remarks: bool = True) -> str:
        """The schedule, figures and verdict; then the remarks, if `with_remarks`."""
        icon, word, sentence = self.verdict
        remarks = "".join(map(remark_html, self.remarks)) if with_remarks else ""
        known = "" if self.found is None else schedule_html(self.found)
        return (
            '<section class="sparkwright-forecast" aria-label="Forecast">'
            f"{known}{fragments.figure_list(self.figures)}"
            f'<p class="sparkwright-verdict"><span class="sparkwright-word">'
            f'<span aria-hidden="true">{icon}</span> {escaped(word)}.</span> '
            f"{escaped(sentence)}</p>{remarks}{self._advice_html()}</section>"
        )

    def text(self) -> str:
        _, word, sentence = self.verdict
        lines = [f"{label}: {value}" for label, value in self.figures]
        remarks = [remark.sentence for remark in self.remarks]
        advice = [f"Advice: {self.found.reason}"] if self.found and self._has_advice else []
        return "\n".join([*lines, f"{word}. {sentence}", *remarks, *advice])

    @property
    def _has_advice(self) -> bool:
        return self.found is not None and self.found.workers > 1 and bool(self.found.alternatives)

    def _advice_html(self) -> str:
        """The recommendation, with the alternatives in a fold."""
        if self.found is None or not self._has_advice:
            return ""
        heads, *rows = self.found.options.rows
        table = html_table(heads, rows, label="Alternatives", text_columns={len(heads) - 1})
        return (
            f'<p class="sparkwright-verdict"><b>Advice:</b> {escaped(self.found.reason)}</p>'
            f"<details><summary>Alternatives, the safest first</summary>{table}</details>"
        )


def remark_html(remark: Remark) -> str:
    return (
        '<div class="sparkwright-remark"><span aria-hidden="true">⚠</span> '
        f"<b>Note:</b> {escaped(remark.sentence)}</div>"
    )


def _figures(found: Advice) -> list[tuple[str, str]]:
    plan, is_sharing = found.plan, found.plan.kind == "sharing"
    once = "message" if is_sharing else "round"
    figures = [("Workers", count_text(found.workers))]
    if found.rows_known:
        figures += [
            ("Minibatches per epoch", count_text(sum(plan.minibatches))),
            (f"{once.capitalize()}s per epoch", count_text(found.exchanges)),
        ]
    if not is_sharing:
        figures.append(("Examples per round", count_text(found.examples_per_exchange)))
    if found.rows_known:
        figures.append(("Idle workers", count_text(len(plan.idle_workers))))
    most = "up to " if is_sharing else ""
    if found.bytes_per_exchange is not None:
        figures.append((f"Sent per {once} and worker", most + bytes_text(found.bytes_per_exchange)))
    if found.memory is not None:
        memory = f"about {bytes_text(found.memory.trainer_mib << 20)}"
        figures.append(("Memory of a worker's process", memory))
    if (point := found.point) is not None:
        figures.append(("Sent per second and worker", most + bytes_text(point.bytes_per_s)))
        figures += [] if is_sharing else [("Time per round", short_time(point.interval_s))]
    if found.rows_known and found.epoch_s is not None:
        figures.append(("Time per epoch", short_time(found.epoch_s)))
    if found.speed_up is not None:
        figures.append(("Speed-up over one worker", f"{found.speed_up:.1f} times"))
    return figures


# --- bars of one round, and of one epoch of each worker


def schedule_html(found: Advice) -> str:
    """Bars of a round and of an epoch; empty if data and step time are unknown."""
    bars = _round(found)
    if found.rows_known and any(found.plan.minibatches):
        bars += _epoch(found)
    return f'<div class="sparkwright-schedule">{bars}</div>' if bars else ""


def _round(found: Advice) -> str:
    """Minibatches and the exchange after them, with widths in proportion to their times."""
    step_s = found.load.step_s
    if step_s is None or found.exchange_s is None:
        return ""
    count, what = found.minibatches_per_exchange, "sharing" if _is_sharing(found) else "averaging"
    compute_s = count * step_s
    share = 100 * compute_s / (compute_s + found.exchange_s)
    title = "One message" if _is_sharing(found) else "One round"
    minibatches = counted(count, "minibatch", "minibatches")
    text = f"{title}: {minibatches} {short_time(compute_s)}, {what} {short_time(found.exchange_s)}"
    return f"<p>{escaped(text)}</p>" + _track(
        f'<i style="width:{share:.2f}%;{_cuts(count)}"></i>'
        f'<i class="sparkwright-exchange" style="width:{100 - share:.2f}%"></i>'
    )


def _epoch(found: Advice) -> str:
    plan = found.plan
    minibatches = plan.minibatches
    longest, every = max(minibatches), found.minibatches_per_exchange
    lanes: list[str] = []
    for worker, count in list(enumerate(minibatches))[:LANES]:
        rounds = -(-count // every)
        # With gradient sharing, there are too many messages to draw each one.
        cuts = "" if _is_sharing(found) or not count else _cuts(rounds, 100 * every / count)
        bar = _track(f'<i style="width:{100 * count / longest:.2f}%;{cuts}"></i>')
        text = count_text(count) if count else "no data"
        lanes.append(
            f'<div class="sparkwright-lane"><span>Worker {worker}</span>{bar}'
            f"<span>{text}</span></div>"
        )
    left = len(minibatches) - LANES
    more = f"<p>{count_text(left)} more workers are not drawn.</p>" if left > 0 else ""
    what = "" if _is_sharing(found) else f" ({counted(found.exchanges, 'round')})"
    return f"<p>One epoch{what}: minibatches of each worker</p>{''.join(lanes)}{more}"


def _track(inside: str) -> str:
    return f'<span class="sparkwright-track" aria-hidden="true">{inside}</span>'


def _cuts(count: int, percent: float = 0.0) -> str:
    """CSS of lines between `count` pieces of `percent` width each; default 0: equal pieces."""
    if not 1 < count <= _MOST_ROUNDS:
        return ""
    percent = percent or 100 / count
    cut = f"calc({percent:.3f}% - 1.5px)"
    return (
        f"background-image:repeating-linear-gradient(to right,transparent 0 {cut},"
        f"var(--jp-layout-color1,Canvas) {cut} {percent:.3f}%)"
    )


def _is_sharing(found: Advice) -> bool:
    return found.plan.kind == "sharing"


def short_time(seconds: float) -> str:
    """A duration with three significant digits."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"
