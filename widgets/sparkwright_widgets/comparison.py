"""Compare several runs in one chart, live during training, with a static copy."""

import sys
from collections.abc import Sequence
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.runs import StoredRun

from ._block import Block
from ._comparison_table import Table, differences, distinct_names, results
from ._contract import ComparedRun, sharing_of
from ._figure_svg import figure_html
from ._live_chart import LiveChart
from ._loss_feed import ComparisonFeed
from ._run_figures import comparison_figure
from ._table import html_table, text_table

_LOOK_EVERY_S = 0.5
_READ_WITHIN_S = 10.0
_MOST_RUNS = 12  # colors and markers are distinct up to here


def compare_runs(
    runs: Sequence[ComparedRun], *, names: Sequence[str] | None = None
) -> "RunComparison":
    """Show several runs in one chart, live during training, with a table of their results.

    Args:
        runs: 1 to 12 training runs, finished or not.
        names: one name per run; default None: their titles.

    Raises:
        ConfigurationError: if the number of runs is not 1 to 12, or differs from the number of
            names.

    Example:
        compare_runs([run, run_with_sharing], names=["averaging", "sharing"])
    """
    return RunComparison(runs, names=names)


class RunComparison(LiveChart[ComparisonFeed]):
    """The widget that `compare_runs` returns.

    One thread polls the runs; it ends with the last run, or with `close`.
    """

    def __init__(self, runs: Sequence[ComparedRun], *, names: Sequence[str] | None = None) -> None:
        runs = tuple(runs)
        if not 1 <= len(runs) <= _MOST_RUNS:
            raise ConfigurationError(
                f"`runs` must be 1 to {_MOST_RUNS} training runs. Received: {len(runs)} runs."
            )
        if names is not None and len(names) != len(runs):
            raise ConfigurationError(
                "`names` must have one name per run. Received: "
                f"{len(names)} names for {len(runs)} runs."
            )
        self._names = distinct_names(runs) if names is None else [str(name) for name in names]
        self._runs: list[ComparedRun | None] = list(runs)  # set to None as they end
        self._next_row, self._next_point = [0] * len(runs), [0] * len(runs)
        self._statuses = [run.status for run in runs]
        self._losses: dict[int, float | None] = {}  # of stored runs
        self._differences = differences(self._names, runs)
        sharing = [sharing_of(run) is not None for run in runs]
        super().__init__(
            ComparisonFeed(sharing),
            what="comparison",
            every_s=_LOOK_EVERY_S,
            line_names=self._names,
            texts={"settings": _settings_fold(self._differences)},
        )
        self._show_table()
        self._start(name="sparkwright-comparison")

    def replace(self, runs: Sequence[ComparedRun]) -> None:
        """Show newer states of the same runs once all have been read; keeps the zoom."""
        self.wait(_READ_WITHIN_S)
        self._runs = list(runs)
        # Above the length of any log, so that each log is read from the start.
        self._next_row = [sys.maxsize] * len(runs)
        self._show_new_data()

    def block(self) -> Block:
        """A static copy of the current state; complete if all runs have ended."""
        if all(run is None or run.finished for run in list(self._runs)):
            self.wait(_READ_WITHIN_S)  # the thread may still be reading the last of them
        lines = self.read(lambda feed: feed.lines())
        heads, rows = self._results()
        figure = comparison_figure(lines, self._names)
        html = (
            f"{figure_html(figure)}{_results_table(heads, rows)}{_settings_fold(self._differences)}"
        )
        return Block(html=html, text=text_table(heads, rows, text_columns=(1,)), kind="comparison")

    def _repr_mimebundle_(self, **options: Any) -> Any:
        return self._bundle_with(self.block())

    # --- the thread

    def _show_new_data(self) -> bool:
        for number in range(len(self._runs)):
            self._take(number)
        self._show_table()
        return not any(self._runs)

    def _take(self, number: int) -> None:
        """Read the new rows and validation points of one run."""
        run = self._runs[number]
        if run is None:
            return
        has_ended = run.finished  # read before the log, so that the log is then complete
        status = run.status
        # A run that restarts from its first step clears its history.
        has_restarted = len(run.log) < self._next_row[number]
        if has_restarted:
            self._next_row[number] = self._next_point[number] = 0
        rows = run.log.rows(self._next_row[number])
        points = status.validation[self._next_point[number] :]
        self._next_row[number] += len(rows["step"])
        self._next_point[number] += len(points)

        def take(feed: ComparisonFeed) -> None:
            if has_restarted:
                feed.restart(number)
            feed.add_rows(number, rows, workers=len(status.workers))
            feed.add_validation(number, points)
            if has_ended:
                feed.finish(number)

        self.update(take)
        self._statuses[number] = status
        if isinstance(run, StoredRun):  # the curve of a stored run has no rounds
            self._losses[number] = run.loss
        if has_ended:
            self._runs[number] = None

    def _results(self) -> Table:
        means = self.read(lambda feed: feed.mean_losses)
        losses = [self._losses.get(number, mean) for number, mean in enumerate(means)]
        return results(self._names, self._statuses, losses)

    def _show_table(self) -> None:
        heads, rows = self._results()
        self.show_texts(table=_results_table(heads, rows))
        self.summary = f"{len(rows)} runs: " + "; ".join(
            f"{row[0]} {row[1]}, loss {row[3]}" for row in rows
        )


def _results_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return html_table(heads, rows, label="Results of the runs", text_columns=(1,))


def _settings_fold(found: Table) -> str:
    heads, rows = found
    if not rows:
        return "<p>The runs have the same settings.</p>" if len(heads) > 2 else ""
    table = html_table(heads, rows, label="Settings that differ", text_columns=range(1, len(heads)))
    return f"<details><summary>Settings that differ ({len(rows)})</summary>{table}</details>"
