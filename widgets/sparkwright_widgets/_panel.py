"""The live panel of a training run: progress, loss curve, workers, and the Stop button.

Callbacks may arrive on any thread (ipykernel decides) and return at once.
"""

import time
from collections.abc import Callable
from typing import Any

import ipywidgets as widgets

from . import _fragments as fragments
from ._any_page import Button
from ._contract import ENDED, MEAN_NAME, Run, Status, sharing_of
from ._live import LiveView
from ._loss_chart import LossChart
from ._loss_feed import LossFeed
from ._still import Still

_CURVE_EVERY_S = 0.2
_TEXT_EVERY_S = 0.5  # at most twice a second: a screen reader has to keep up
_SUMMARY_EVERY_S = 2.0
_REFRESH_EVERY_S = 60.0  # of what is saved in the notebook, well within Binder's ten idle minutes

_STOP_ROUND = "End the run after the current round and keep the averaged network"
_STOP_SHARING = "End the run soon: the workers average their networks, and that is kept"


class LivePanel(LiveView):
    """Shows a run while it trains and what came of it afterwards.

    Displayed at the top level of an output it also leaves a static copy, for saved and exported
    notebooks; `panel_for` keeps that copy up to date.

    Args:
        run: the run to show; let go of when it has ended.
    """

    def __init__(self, run: Run) -> None:
        super().__init__(what="panel", every_s=_CURVE_EVERY_S)
        self._run: Run | None = run
        self._title = run.title
        self._sharing = sharing_of(run)
        self._status: Status = run.status
        self._next_row = 0
        self._next_validation = 0
        self._text_due_s = 0.0
        self._summary_due_s = 0.0
        self._refresh_due_s = time.monotonic() + _REFRESH_EVERY_S
        self._on_refresh: list[Callable[[], None]] = []
        self._has_ended = False

        self.state = widgets.HTML()
        self.stop_button = Button(
            description="Stop",
            icon="stop",
            tooltip=_STOP_ROUND if self._sharing is None else _STOP_SHARING,
        )
        self.stop_button.on_click(self._stop)
        self.alerts = widgets.HTML()
        self.progress = widgets.HTML()
        self.chart: LossChart[LossFeed] = LossChart(
            LossFeed(sharing=self._sharing is not None),
            **({} if self._sharing is None else {"mean_name": MEAN_NAME}),
        )
        self.workers = widgets.HTML()
        top = widgets.HBox([self.state, self.stop_button], layout={"flex_flow": "row wrap"})
        top.add_class("sparkwright-top")
        rows = [top, self.alerts, self.problem, self.progress, self.chart, self.workers]
        self._show_texts()
        self._start(rows, name=f"sparkwright-panel-{run.id}")

    @property
    def has_ended(self) -> bool:
        """Whether the run has ended and the panel shows its final state."""
        return self._has_ended

    def on_refresh(self, callback: Callable[[], None]) -> None:
        """Call `callback` about once a minute, and once more when the run has ended.

        It runs on the panel's thread; at once, on the caller's, if the run has already ended.
        """
        with self._lock:
            if not self._has_ended:
                self._on_refresh.append(callback)
                return
        callback()

    def still(self) -> Still:
        """What the panel shows now, to be kept."""
        lines, others, quantities, mean_loss, not_finite = self.chart.read(
            lambda feed: (
                feed.curve.lines(),
                feed.curve.quantity_lines(),
                tuple(quantity for _, quantity in feed.curve.quantities()[1:]),
                feed.curve.mean_loss,
                feed.curve.not_finite,
            )
        )
        return Still(
            at=time.strftime("%H:%M"),
            title=self._title,
            status=self._status,
            mean_loss=mean_loss,
            lines=lines,
            not_finite=not_finite,
            sharing=self._sharing,
            quantities=quantities,
            quantity_lines=others,
        )

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options) or {}
        copy = self.still().copy()
        return {**bundle, **copy.mimebundle()}

    # --- the panel's thread

    def _look(self) -> bool:
        """Take what is new from the run; True when it has ended and all of it was taken."""
        run = self._run
        if run is None:
            return True
        has_ended = run.finished  # asked first: what came before it is then in the log
        status = run.status
        # A run that trains anew, after losing what it had, forgets its history.
        has_restarted = len(run.log) < self._next_row
        if has_restarted:
            self._next_row = self._next_validation = 0
        rows = run.log.rows(self._next_row)
        validation = status.validation[self._next_validation :]
        self._next_row += len(rows["step"])
        self._next_validation += len(validation)

        def take(feed: LossFeed) -> None:
            if has_restarted:
                feed.restart()
            feed.add_rows(rows)
            feed.add_validation(validation)
            if has_ended:
                feed.finish()

        self.chart.update(take)
        self.chart.offer(self.chart.read(lambda feed: feed.curve.quantities()))
        self._status = status
        now_s = time.monotonic()
        if has_ended or now_s >= self._text_due_s:
            self._text_due_s = now_s + _TEXT_EVERY_S
            self._show_texts()
        if not has_ended and now_s >= self._refresh_due_s:
            self._refresh_due_s = now_s + _REFRESH_EVERY_S
            self._refresh()
        return has_ended

    def _end(self) -> None:
        with self._lock:
            self._has_ended = True
            self._run = None  # the run may be large; the panel may stay open for hours
            self.stop_button.disabled = True
            self.stop_button.description = "Run ended"
        if not self._closing.is_set():
            self._refresh()
        with self._lock:
            self._on_refresh.clear()

    def _refresh(self) -> None:
        with self._lock:
            callbacks = list(self._on_refresh)
        for callback in callbacks:
            try:
                callback()
            except Exception as error:
                self._show_problem(error)

    def _show_texts(self) -> None:
        status = self._status
        mean_loss, not_finite = self.chart.read(
            lambda feed: (feed.curve.mean_loss, feed.curve.not_finite)
        )
        now_s = time.monotonic()
        with self._lock:
            self.state.value = fragments.state_line(self._title, status)
            self.progress.value = fragments.progress(status, mean_loss, self._sharing)
            self.alerts.value = (
                fragments.failure(status)
                + fragments.lost_workers(status, self._sharing)
                + fragments.not_finite_banner(not_finite)
            )
            self.workers.value = fragments.worker_table(status.workers, self._sharing)
            if status.state in ENDED or now_s >= self._summary_due_s:
                self._summary_due_s = now_s + _SUMMARY_EVERY_S
                self.chart.summary = fragments.progress_text(status, mean_loss, self._sharing)

    # --- the button, on any thread

    def _stop(self, _button: object) -> None:
        try:
            run = self._run
            if run is None:
                return
            self.stop_button.disabled = True
            self.stop_button.description = "Stopping"
            run.stop()
        except Exception as error:
            self.stop_button.disabled = False
            self.stop_button.description = "Stop"
            self._show_problem(error)
