"""The result of a benchmark: a table, a figure and shareable JSON."""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from sparkwright.evaluation.plots import COLORS, THIN_LINE, finish, new_axes
from sparkwright.evaluation.reports import Report, Table
from sparkwright.masters import Advice
from sparkwright.storage.files import write_bytes
from sparkwright.timeline.summary import percent_text, seconds_text

# Options with addresses, paths or URLs.
_PLACES = {"mesh", "checkpoint", "export_directory", "time_source"}
# The columns of the table: name in `runs`, header, and format function.
_COLUMNS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("workers", "workers", str),
    ("examples_per_s", "examples/s", "{:,.0f}".format),
    ("minibatch_s", "minibatch", seconds_text),
    ("round_s", "round", seconds_text),
    ("averaging_s", "averaging", seconds_text),
    ("times_faster", "times faster", "{:.2f}".format),
    ("efficiency", "efficiency", percent_text),
    ("predicted", "predicted", percent_text),
)
Facts = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True, repr=False)
class BenchmarkResult:
    """The measurements of `sw.benchmark`; None for those not made.

    Attributes:
        date: date and time in UTC.
        seconds: duration of the benchmark.
        environment: versions and the operating system.
        cluster: `master` (its kind), `executors`, `slots`, `machines`; `hosts` if requested.
        model: `name`, `parameters`, `vector_bytes`, `updater_bytes`, `batch_size`.
        master: the settings of the training master.
        network: `bandwidth_bytes_per_s` of each worker while all workers send, and `latency_s`.
        fit: `model.fit` on one executor: `step_s` of a minibatch in the fastest epoch, `epochs`,
            `seconds`, `reached_s` (time to the target), `best` value, `cores`, `device`.
        runs: for each number of `workers`: `examples_per_s` of all workers, `minibatch_s` including
            its share of the averaging, `round_s` and its part `averaging_s`, `times_faster` than
            one worker, `efficiency`, and `predicted`, the efficiency by the cost model.
        goal: time to reach a value of a metric on validation data: `metric`, `target`, `workers`,
            `fit_s` of `model.fit`, `workers_s` (duration of the call to train), and `best`, the
            workers' best value.
        advice: the recommended settings for all workers.
        notes: shortened or skipped measurements, with reasons.
    """

    date: str
    seconds: float
    environment: Facts
    cluster: Facts
    model: Facts
    master: Facts
    network: Facts | None
    fit: Facts | None
    runs: tuple[Facts, ...]
    goal: Facts | None
    advice: Advice | None
    notes: tuple[str, ...]

    @property
    def table(self) -> Any:
        """Return a pandas DataFrame with a row for each number of workers."""
        import pandas as pd

        return pd.DataFrame(list(self.runs))

    def to_dict(self) -> Facts:
        """Return JSON-serializable fields, without addresses, paths and URLs."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        advice = None if self.advice is None else self.advice.to_dict()
        return _without_places({**found, "advice": advice})

    def to_json(self, url: str | None = None) -> str:
        """Return JSON; also write it to `url`, a path or URL, if given.

        Raises:
            OSError: if it cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, allow_nan=False)
        if url is not None:
            write_bytes(url, text.encode())
        return text

    def figure(self) -> Any:
        """Return a matplotlib Figure of examples/s and efficiency by number of workers.

        Raises:
            ConfigurationError: if matplotlib is not installed.
        """
        figure = new_axes(8.5, 3.8).figure
        figure.clear()
        axes, other = figure.subplots(1, 2)
        workers = [run["workers"] for run in self.runs]

        def draw(axes: Any, name: str, label: str, style: str, color: str) -> None:
            # Missing measurements are gaps.
            values = [run[name] or math.nan for run in self.runs]
            axes.plot(workers or [0], values or [0], style, color=color, label=label)

        draw(axes, "examples_per_s", "examples/s", "o-", COLORS[0])
        draw(other, "efficiency", "efficiency", "o-", COLORS[0])
        draw(other, "predicted", "predicted", "s-", COLORS[1])
        if self.fit is not None:
            axes.axhline(self._fit_rate, color=COLORS[1], linestyle="--", label="model.fit")
        other.axhline(1, **THIN_LINE)
        for each, label in ((axes, "examples/s"), (other, "efficiency")):
            each.set_ylim(bottom=0)
            each.set_xticks(workers)
            finish(each, x="workers", y=label, legend=2)
        return figure

    def report(self) -> Report:
        """Return the result as text and a table."""
        model, cluster, facts = self.model, self.cluster, list[str]()
        if (net := self.network) is not None:
            facts.append(
                f"Network: {net['bandwidth_bytes_per_s'] / 1.25e8:.3g} Gbit/s, latency "
                f"{seconds_text(net['latency_s'])}; machines: {cluster['machines']}."
            )
        if self.fit is not None:
            facts.append(
                f"`model.fit` on one executor: {seconds_text(self.fit['step_s'])} a minibatch, "
                f"{self._fit_rate:,.0f} examples/s."
            )
        if (goal := self.goal) is not None:
            fit, all_of_them = (
                "not reached" if each is None else seconds_text(each)
                for each in (goal["fit_s"], goal["workers_s"])
            )
            facts.append(
                f"Time to {goal['metric']} of {goal['target']:g}: `model.fit` on one executor "
                f"{fit}, {goal['workers']} workers {all_of_them}."
            )
        facts += [] if self.advice is None else [f"Advice: {self.advice.reason}"]
        rows = [[head for _, head, _ in _COLUMNS]]
        rows += [
            ["?" if run[name] is None else text(run[name]) for name, _, text in _COLUMNS]
            for run in self.runs
        ]
        return Report(
            title=f"{model['name']}, {model['parameters']:,} parameters, minibatches of "
            f"{model['batch_size']}; {cluster['master']}, {cluster['slots']} task slots",
            notes=[*facts, *self.notes, f"Measured in {seconds_text(self.seconds)}."],
            tables=[Table(rows=rows)],
        )

    @property
    def _fit_rate(self) -> float:
        """Return the examples/s of `model.fit`."""
        return 0.0 if self.fit is None else self.model["batch_size"] / self.fit["step_s"]

    def __repr__(self) -> str:
        return self.report().text()

    def _repr_html_(self) -> str:
        return self.report().html()


def _without_places(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_places(v) for name, v in value.items() if name not in _PLACES}
    return [_without_places(each) for each in value] if isinstance(value, list | tuple) else value
