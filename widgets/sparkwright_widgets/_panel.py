"""The live panel of a training run, and its static copy for saved notebooks.

Callbacks may arrive on any thread (ipykernel decides) and must return immediately.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from . import _fragments as fragments
from ._block import Block
from ._contract import ENDED, MEAN_NAME, Run, Sharing, Status, sharing_of
from ._curve import FloatPoints, NotFinite, QuantityLines
from ._figure_svg import figure_html
from ._format import escaped
from ._live_chart import LiveChart
from ._loss_feed import LossFeed
from ._quantities import Quantity
from ._run_figures import run_figures

_CURVE_EVERY_S = 0.2
_TEXT_EVERY_S = 0.5  # at most twice a second: a screen reader has to keep up
_SUMMARY_EVERY_S = 2.0
_FIRST_LOOK_S = 2.0  # what a copy waits for at most
_REFRESH_EVERY_S = 60.0  # of what is saved in the notebook, well within Binder's ten idle minutes

_STOP_ROUND = "Stop after the current round and keep the averaged network"
_STOP_SHARING = "Stop soon; the workers average their networks, and the average is kept"


@dataclass(frozen=True, kw_only=True, slots=True)
class Still:
    """A snapshot of a run that can be shown without a kernel or widgets."""

    at: str  # time of day
    title: str
    status: Status
    mean_loss: float | None  # of the last complete round; None before the first
    lines: dict[int, FloatPoints]  # from `Curve.lines()`
    not_finite: NotFinite | None  # the first one
    sharing: Sharing | None = None  # None: parameter averaging
    quantities: tuple[Quantity, ...] = ()
    # From `Curve.quantity_lines()`.
    quantity_lines: QuantityLines = field(default_factory=dict[str, dict[int, FloatPoints]])

    def text(self) -> str:
        """Return one line of plain text."""
        far = fragments.progress_text(self.status, self.mean_loss, self.sharing)
        return f"{self.title}: {far}"

    def copy(self) -> Block:
        """Return the static copy of the panel: state, figures, curve and workers."""
        html = "".join(
            [
                fragments.state_line(self.title, self.status),
                fragments.failure(self.status),
                fragments.lost_workers(self.status, self.sharing),
                fragments.not_finite_banner(self.not_finite),
                fragments.progress(self.status, self.mean_loss, self.sharing),
                self._figure(),
                fragments.worker_table(self.status.workers, self.sharing),
            ]
        )
        return Block(html=html, text=self.text(), kind="copy")

    def card(self) -> Block:
        """Return the summary card: the result in one line; below, figures, curve and workers."""
        # For saved notebooks without their kernel. Next to a panel or its copy, the style sheet
        # shows only the line, so no curve appears twice.
        if self.status.state not in ENDED:
            # The card is rarely refreshed, so it omits progress that would soon be outdated.
            begun = self.status.state not in ("queued", "starting")
            far = f"{self.text()} (at {self.at})." if begun else f"{self.title}."
            sentence = f"{far} The result appears here when the run ends."
            return Block(html=f"<p>{escaped(sentence)}</p>", text=sentence, kind="card")
        figures = fragments.result_figures(self.status, self.mean_loss, self.sharing)
        html = (
            f"<details open><summary>{escaped(self.text())}</summary>"
            f"{fragments.figure_list(figures)}{fragments.note(self.status)}{self._figure()}"
            f"{fragments.worker_table(self.status.workers, self.sharing)}</details>"
        )
        return Block(html=html, text=self.text(), kind="card")

    def _figure(self) -> str:
        figures = run_figures(self.lines, self.quantities, self.quantity_lines, self.sharing)
        html = "".join(map(figure_html, figures))
        return html or "<p>No minibatch has been reported yet.</p>"


class LivePanel(LiveChart[LossFeed]):
    """Shows a run while it trains and its result afterwards.

    Displayed at the top level of an output it also leaves a static copy, for saved and exported
    notebooks; `panel_for` keeps that copy up to date. The run is released when it has ended.
    """

    def __init__(self, run: Run, *, has_stop: bool = True) -> None:
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
        sharing = self._sharing is not None
        super().__init__(
            LossFeed(sharing=sharing),
            what="panel",
            every_s=_CURVE_EVERY_S,
            stop_word="Stop" if has_stop else "",
            stop_help=_STOP_SHARING if sharing else _STOP_ROUND,
            **({"mean_name": MEAN_NAME} if sharing else {}),
        )
        self._show_status()
        self._start(name=f"sparkwright-panel-{run.id}")

    def on_refresh(self, callback: Callable[[], None]) -> None:
        """Call `callback` about once a minute, and once more when the run has ended.

        It runs on the panel's thread; at once, on the caller's, if the run has already ended.
        """
        with self._lock:
            if not self.has_ended:
                self._on_refresh.append(callback)
                return
        callback()

    def still(self) -> Still:
        """A static copy of the panel; waits for the first update if needed."""
        self._has_looked.wait(_FIRST_LOOK_S)
        lines, others, quantities, mean_loss, not_finite = self.read(
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
        return self._bundle_with(self.still().copy())

    # --- the panel's thread

    def _show_new_data(self) -> bool:
        """Show new data of the run; return True when it has ended and is shown completely."""
        run = self._run
        if run is None:
            return True
        has_ended = run.finished  # read before the log, so that the log is then complete
        status = run.status
        # A run that restarts from its first step clears its history.
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

        self.update(take)
        self._status = status
        now_s = time.monotonic()
        if has_ended or now_s >= self._text_due_s:
            self._text_due_s = now_s + _TEXT_EVERY_S
            self._show_status()
        if not has_ended and now_s >= self._refresh_due_s:
            self._refresh_due_s = now_s + _REFRESH_EVERY_S
            self._refresh()
        return has_ended

    def _end(self) -> None:
        with self._lock:
            self._run = None  # the run may be large; the panel may stay open for hours
            self.has_ended = True
            self._set_stop("Run ended")
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

    def _show_status(self) -> None:
        status = self._status
        mean_loss, not_finite = self.read(
            lambda feed: (feed.curve.mean_loss, feed.curve.not_finite)
        )
        now_s = time.monotonic()
        with self._lock:
            self.epochs_done = fragments.epochs_done(status)
            self.show_texts(
                state=fragments.state_line(self._title, status),
                progress=fragments.progress(status, mean_loss, self._sharing),
                alerts=fragments.failure(status)
                + fragments.lost_workers(status, self._sharing)
                + fragments.not_finite_banner(not_finite),
                workers=fragments.worker_table(status.workers, self._sharing),
            )
            if status.state in ENDED or now_s >= self._summary_due_s:
                self._summary_due_s = now_s + _SUMMARY_EVERY_S
                self.summary = fragments.progress_text(status, mean_loss, self._sharing)

    # --- the button, on any thread

    def _stop(self) -> None:
        with self._lock:
            run = self._run
            if run is None:
                return
            self._set_stop("Stopping")
        try:
            run.stop()
        except Exception as error:
            self._set_stop("Stop")
            self._show_problem(error)

    def _set_stop(self, word: str) -> None:
        if self.stop_word:
            self.stop_word = word
