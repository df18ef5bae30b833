"""What a benchmark has found: a table, a figure and JSON that a user can send."""

import json
from dataclasses import asdict, dataclass
from typing import Any

from sparkwright.evaluation.plots import COLORS, THIN_LINE, finish, new_axes
from sparkwright.evaluation.reports import Report, Table
from sparkwright.masters import Advice
from sparkwright.storage.files import write_bytes
from sparkwright.timeline.summary import seconds_text

from ._fit import FitTime
from ._network import NetworkSpeed

_PLACES = {"mesh", "checkpoint", "export_directory", "time_source"}
_HEADS = (
    *("workers", "examples/s", "minibatch", "round", "averaging", "times faster"),
    *("efficiency", "predicted"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkersTime:
    """What some number of workers took.

    Attributes:
        workers: how many trained.
        examples_per_s: of all together, from the second round on.
        minibatch_s: seconds of a minibatch of each worker, its share of the averaging included.
        round_s: from one averaging to the next; None with gradient sharing.
        averaging_s: of a round, in averaging and applying the result; None likewise.
        efficiency: examples/s over those of as many workers like the one that trained alone; None
            without a run of one worker.
        predicted: the efficiency that the cost model predicts from the step time and the network;
            None if these are not known.
    """

    workers: int
    examples_per_s: float
    minibatch_s: float
    round_s: float | None
    averaging_s: float | None
    efficiency: float | None
    predicted: float | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """How long it took to reach a value of a metric on validation data.

    Attributes:
        metric: its name.
        target: the value to reach.
        workers: that trained together.
        fit_s: seconds of `model.fit` on one executor, compiling included; None: it was not reached.
        workers_s: seconds of all workers, from the call to train; None likewise.
        best_fit: the best value that `model.fit` reached; None: not evaluated.
        best_workers: likewise of the workers.
    """

    metric: str
    target: float
    workers: int
    fit_s: float | None
    workers_s: float | None
    best_fit: float | None
    best_workers: float | None

    def __str__(self) -> str:
        def text(seconds: float | None, best: float | None) -> str:
            if seconds is not None:
                return seconds_text(seconds)
            return "not measured" if best is None else f"not reached (best {best:.3f})"

        return (
            f"{self.metric} of {self.target:g}: `model.fit` on one executor "
            f"{text(self.fit_s, self.best_fit)}, {self.workers} workers "
            f"{text(self.workers_s, self.best_workers)}."
        )


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BenchmarkResult:
    """What `sw.benchmark` has measured.

    Attributes:
        date: when, in UTC.
        seconds: that it took.
        environment: versions and the operating system; no names of hosts or users.
        cluster: what kind of cluster it is: `master`, `executors`, `slots`, `machines`; with
            `include_hosts` also `hosts`.
        model: `name`, `parameters`, `vector_bytes`, `updater_bytes`, `batch_size`.
        master: the settings of the training master.
        network: bandwidth and latency between the workers; None: not measured.
        fit: `model.fit` on one executor; None: not measured.
        runs: one for each number of workers.
        goal: time to a given accuracy; None: not measured.
        advice: the recommended settings for all workers; None: too little was measured.
        notes: what was shortened or left out, and why.
    """

    date: str
    seconds: float
    environment: dict[str, str]
    cluster: dict[str, Any]
    model: dict[str, Any]
    master: dict[str, Any]
    network: NetworkSpeed | None
    fit: FitTime | None
    runs: tuple[WorkersTime, ...]
    goal: Goal | None
    advice: Advice | None
    notes: tuple[str, ...]

    @property
    def table(self) -> Any:
        """A pandas DataFrame with a row for each number of workers."""
        import pandas as pd

        return pd.DataFrame([asdict(run) for run in self.runs])

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        nested = {name: getattr(self, name) for name in ("network", "fit", "goal")}
        plain = ("date", "seconds", "environment", "cluster", "model", "master")
        return {
            **{name: _without_places(getattr(self, name)) for name in plain},
            **{name: None if each is None else asdict(each) for name, each in nested.items()},
            "runs": [asdict(run) for run in self.runs],
            "advice": None if self.advice is None else _without_places(self.advice.to_dict()),
            "notes": list(self.notes),
        }

    def to_json(self, url: str | None = None) -> str:
        """Return JSON, and write it to `url`, a path or any URL, if that is given.

        Raises:
            OSError: if it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        if url is not None:
            write_bytes(url, text.encode())
        return text

    def figure(self) -> Any:
        """Draw examples/s and efficiency by number of workers; return matplotlib's Figure.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """
        axes = new_axes(8.5, 3.8)
        spec = axes.get_subplotspec().subgridspec(1, 2)
        axes.set_subplotspec(spec[0])
        other = axes.figure.add_subplot(spec[1])
        counts = [run.workers for run in self.runs]
        axes.plot(
            counts,
            [run.examples_per_s for run in self.runs],
            "o-",
            color=COLORS[0],
            label="workers",
        )
        if self.fit is not None:
            rate = self.model["batch_size"] / self.fit.step_s
            axes.axhline(rate, color=COLORS[1], linestyle="--", label="model.fit")
        axes.set_ylim(bottom=0)
        for name, color, style in (("efficiency", 0, "o-"), ("predicted", 1, "s--")):
            known = [(r.workers, y) for r in self.runs if (y := getattr(r, name)) is not None]
            if known:
                other.plot(*zip(*known, strict=True), style, color=COLORS[color], label=name)
        other.axhline(1, **THIN_LINE)
        other.set_ylim(bottom=0)
        for each, label in ((axes, "examples/s"), (other, "efficiency")):
            each.set_xticks(counts)
            finish(each, x="workers", y=label, legend=2)
        return axes.figure

    def report(self) -> Report:
        """All of it as text and a table."""
        model, cluster = self.model, self.cluster
        title = (
            f"{model['name']}, {model['parameters']:,} parameters, minibatches of "
            f"{model['batch_size']}; {cluster['master']}, {cluster['slots']} task slots"
        )
        facts = list[str]()
        if self.network is not None:
            net = self.network
            facts.append(
                f"Network: {net.bandwidth_bytes_per_s / 1.25e8:.3g} Gbit/s, latency "
                f"{seconds_text(net.latency_s)}, {net.workers} tasks on {net.machines} "
                f"machine{'s' if net.machines != 1 else ''}."
            )
        if self.fit is not None:
            rate = model["batch_size"] / self.fit.step_s
            facts.append(
                f"`model.fit` on one executor: {seconds_text(self.fit.step_s)} a minibatch, "
                f"{rate:,.0f} examples/s."
            )
        if self.goal is not None:
            facts.append(f"Time to {self.goal}")
        facts += [] if self.advice is None else [f"Advice: {self.advice.reason}"]
        facts += [*self.notes, f"Measured in {seconds_text(self.seconds)}."]
        rows = [_row(run, self.runs) for run in self.runs]
        tables = [Table(rows=[_HEADS, *rows])] if rows else []
        return Report(title=title, notes=facts, tables=tables)

    def __repr__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return self.report().html()


def _without_places(value: Any) -> Any:
    """The same without options that hold addresses, paths or URLs."""
    if isinstance(value, dict):
        return {name: _without_places(v) for name, v in value.items() if name not in _PLACES}
    return [_without_places(each) for each in value] if isinstance(value, list) else value


def _row(run: WorkersTime, runs: tuple[WorkersTime, ...]) -> tuple[str, ...]:
    alone = next((each.examples_per_s for each in runs if each.workers == 1), None)
    known = {
        "round": None if run.round_s is None else seconds_text(run.round_s),
        "averaging": None if run.averaging_s is None else seconds_text(run.averaging_s),
        "faster": None if alone is None else f"{run.examples_per_s / alone:.2f}",
        "efficiency": None if run.efficiency is None else f"{run.efficiency:.0%}",
        "predicted": None if run.predicted is None else f"{run.predicted:.0%}",
    }
    first = (str(run.workers), f"{run.examples_per_s:,.0f}", seconds_text(run.minibatch_s))
    return (*first, *("?" if text is None else text for text in known.values()))
