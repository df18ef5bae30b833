"""The panel that starts, stops and resumes training runs, and shows the run live."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import ipywidgets as widgets

from sparkwright import Experiment
from sparkwright.cluster.connect import context_of
from sparkwright.errors import ConfigurationError
from sparkwright.options import Option
from sparkwright.runs import TrainingRun
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._histogram_view import HistogramView
from sparkwright_widgets._panel import LivePanel
from sparkwright_widgets._ui import (
    Checkbox,
    ConfigurationForm,
    Fold,
    OptionForm,
    Part,
    advice,
    row,
    swap,
)

# Fields of `Experiment` that this panel edits, besides `spark`.
RUN_OPTIONS = (
    "epochs",
    "validate",
    "validate_on",
    "early_stopping",
    "reduce_lr_on_plateau",
    "histograms",
)
_CHECKPOINT = Option(
    name="resume",
    kind="text",
    optional=True,
    none_text="none",
    label="URL of a checkpoint",
    help="A checkpoint, or a folder of checkpoints, whose newest one is used.",
)
Begin = Callable[["LaunchPanel", str | None], TrainingRun]


class StoppedBeforeStartError(Exception):
    """Stop was pressed while a run was starting."""


class LaunchPanel(Part):
    """Settings of Spark and of a run, Start, Stop, Resume, and the live panel of the run.

    Attributes:
        run: the most recently started run; None before the first.
        live: its live panel; None before the first run.

    Args:
        network: a SparkNetwork to train; default None: use `begin`.
        data: the training data.
        epochs: passes over the data; default 5.
        validation: data for the validation loss after each epoch; default None.
        begin: starts a run; called on a background thread with this panel and the URL of a
            checkpoint, or None to start from the beginning.
    """

    def __init__(
        self,
        network: Any | None = None,
        data: Any | None = None,
        *,
        epochs: int = 5,
        validation: Any | None = None,
        begin: Begin | None = None,
    ) -> None:
        self._network, self._data, self._validation = network, data, validation
        self._begin = self._begin_given if begin is None else begin
        self.run: TrainingRun | None = None
        self.live: LivePanel | None = None
        self._reason: str | None = None
        self._wanted: int | None = None  # workers of the training master
        self._gate = threading.Lock()  # lets one of two concurrent starts win
        self._starting = self._stop_asked = False
        self._on_starting: list[Callable[[], None]] = []
        self._on_run: list[Callable[[TrainingRun], None]] = []
        self._on_end: list[Callable[[TrainingRun], None]] = []
        super().__init__("Train")

        experiment = Experiment(epochs=epochs)
        self.spark_form = ConfigurationForm(experiment.spark)
        self.spark_state = widgets.HTML()
        self.spark_fold = Fold("Spark", [self.spark_state, self.spark_form])
        # A panel with its own network validates on its own data.
        names = [name for name in RUN_OPTIONS if network is None or name != "validate_on"]
        self.run_form = ConfigurationForm(experiment, names=names)
        self.spark_form.on_change(lambda _path: self._edited())
        self.run_form.on_change(lambda _path: self._edited())
        self.validation_note = widgets.HTML()
        self.start_button = self.new_button(
            "Start", self.start, "Start training", icon="play", button_style="primary"
        )
        self.stop_button = self.new_button(
            "Stop",
            self.stop,
            "Stop training soon and keep the network trained so far",
            icon="stop",
            disabled=True,
        )
        self.resume_form = OptionForm([_CHECKPOINT])
        self.resume_form.on_change(lambda _name: self._show_state())
        self.resume_button = self.new_button(
            "Resume",
            lambda: self.start(self.resume),
            "Resume training from the checkpoint",
            icon="repeat",
            disabled=True,
        )
        resume = Fold("Resume from a checkpoint", [self.resume_form, row(self.resume_button)])
        # A panel with its own network has no other weights to start from.
        self.weights_choice = Checkbox(value=False, description="Start from trained weights")
        self.weights_choice.layout.display = "none" if network is not None else None
        self.why = widgets.HTML()
        self.place = widgets.VBox()
        self.buttons = row(self.start_button, self.stop_button)
        self.show(
            self.why,
            self.place,
            self.buttons,
            self.run_form,
            self.validation_note,
            self.weights_choice,
            self.spark_fold,
            resume,
        )
        self._show_state()
        self.set_spark(None if network is None else network.spark)

    # --- settings

    @property
    def experiment(self) -> Experiment:
        """An experiment with the valid values of `RUN_OPTIONS` and `spark`."""
        return replace(self.run_form.value, spark=self.spark_form.value)

    @experiment.setter
    def experiment(self, experiment: Experiment) -> None:
        self.spark_form.set(experiment.spark)
        self.run_form.set(experiment)
        self._show_state()

    @property
    def resume(self) -> str | None:
        """The URL of the checkpoint to resume from; None if it is not set."""
        return self.resume_form.values["resume"]

    def set_validation(self, note: str) -> None:
        """Show a note on the validation; an empty string removes it."""
        self.validation_note.value = _note(note)

    @property
    def problem(self) -> str | None:
        """Why no run can be started, in one sentence; None if it can."""
        return self.spark_form.problem or self.run_form.problem or self._reason

    def set_ready(self, reason: str | None) -> None:
        """Set why no run can be started yet; None if it can."""
        self._reason = reason
        self._show_state()

    def set_workers(self, workers: int | None) -> None:
        """Set the number of workers of the training master; None: all task slots."""
        self._wanted = workers
        self._compare_workers()

    def set_weights(self, source: str | None) -> None:
        """Offer to start from the weights of the network `source`; None: there is none yet."""
        what = "trained weights (none yet)" if source is None else f"the weights of {source}"
        self.weights_choice.description = f"Start from {what}"
        self.weights_choice.disabled = source is None
        if source is None:
            self.weights_choice.value = False

    def set_spark(self, spark: Any | None) -> None:
        """Show the current Spark session; None: Start creates one with the settings."""
        if spark is None:
            text = "Spark is not running. Start launches it with these settings."
        else:
            master = context_of(spark).master
            text = f"Spark {spark.version} is running at {master} with its own settings."
        self.spark_state.value = advice(text)
        self.spark_form.layout.display = None if spark is None else "none"
        self.spark_fold.set_opened(self.spark_fold.opened and spark is None)
        self._compare_workers()

    # --- actions

    def start(self, resume: str | None = None) -> None:
        """Start a run on a background thread, from the checkpoint at the URL `resume` if set."""
        if self.problem is not None or not self._enter():
            self._show_state()
            return
        began = self.in_background(
            "Starting Spark, loading the data, building the network",
            lambda: self._begin(self, resume),
            self._has_begun,
            finally_=self._leave,
        )
        if not began:
            self._leave()

    def start_now(self, resume: str | None = None) -> TrainingRun:
        """Start a run and return it; blocks until it has started. For use in a cell.

        Raises:
            ConfigurationError: if there is a `problem`, or another run is in progress.
        """
        if self.problem is not None or not self._enter():
            raise ConfigurationError(
                "a run starts only if there is no problem and no other run in progress. Received: "
                f"{self.problem or 'a run in progress'}."
            )
        try:
            run = self._begin(self, resume)
            self._has_begun(run)
        finally:
            self._leave()
        return run

    def stop(self) -> None:
        """Stop the run soon, keeping the trained weights; a starting run stops once started."""
        self._stop_asked = True
        if self.run is not None and not self.run.finished:
            self.run.stop()
        self._show_state()

    @property
    def is_running(self) -> bool:
        """Whether a run is starting or in progress."""
        return self._starting or (self.run is not None and not self.run.finished)

    @property
    def is_stopping(self) -> bool:
        """Whether the current run is stopping."""
        return self.is_running and self._stop_asked

    @property
    def is_starting(self) -> bool:
        """Whether a run is being started."""
        return self._starting

    def check_not_stopped(self) -> None:
        """Raise StoppedBeforeStartError if Stop was pressed during the start."""
        if self._stop_asked:
            raise StoppedBeforeStartError("Stopped before the run started.")

    def on_starting(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when the start of a run begins and when it is over."""
        self._on_starting.append(callback)

    def on_run(self, callback: Callable[[TrainingRun], None]) -> None:
        """Call `callback(run)` when a run has started."""
        self._on_run.append(callback)

    def on_end(self, callback: Callable[[TrainingRun], None]) -> None:
        """Call `callback(run)` when a run has ended, with success or failure."""
        self._on_end.append(callback)

    def close(self) -> None:
        """Close the widgets; a current run continues."""
        for listeners in (self._on_starting, self._on_run, self._on_end):
            listeners.clear()
        super().close()

    # --- private

    def _begin_given(self, _panel: "LaunchPanel", resume: str | None) -> TrainingRun:
        if self._network is None or self._data is None:
            raise ValueError(
                "LaunchPanel needs a network and data. Received: network="
                f"{self._network!r}, data={self._data!r}. Pass both."
            )
        chosen = self.experiment
        return self._network.start(
            self._data,
            epochs=chosen.epochs,
            validation=self._validation if chosen.validate else None,
            callbacks=[each.to_keras() for each in chosen.callbacks],
            histograms=chosen.histograms,
            resume=resume,
            display=False,
        )

    def _has_begun(self, run: TrainingRun) -> None:
        if self._stop_asked:
            run.stop()
        self.run = run
        # This panel has a Stop button, which also works while a run is starting.
        self.live = live = LivePanel(run, has_stop=False)
        shown: list[widgets.Widget] = [live]
        if hasattr(run, "histograms"):
            shown.append(Fold("Histograms of this run", [HistogramView(run)]))
        swap(self.place, *shown)
        self._call(self._on_run, run)
        live.on_refresh(lambda: self._on_refresh(run))

    def _enter(self) -> bool:
        """Return whether a run may start now; if so, block other runs until `_leave`."""
        with self._gate:
            if self.is_running:
                return False
            self._starting, self._stop_asked = True, False
        self._show_state()
        self._call(self._on_starting)
        return True

    def _leave(self) -> None:
        self._starting = False
        self._show_state()
        self._call(self._on_starting)

    def show_error(self, error: BaseException) -> None:
        """Show an error, or a status line if Stop was pressed."""
        if isinstance(error, StoppedBeforeStartError):
            self.say(str(error))
        else:
            super().show_error(error)

    def _on_refresh(self, run: TrainingRun) -> None:
        """Handle a refresh of the live panel, about once a minute and when the run has ended."""
        if not run.finished:
            return
        self._show_state()
        self._call(self._on_end, run)

    def _call(self, callbacks: list[Callable[..., None]], *arguments: Any) -> None:
        """Call each callback; show exceptions, which must not affect the run."""
        for callback in list(callbacks):
            try:
                callback(*arguments)
            except Exception as error:
                self.show_error(error)

    def _compare_workers(self) -> None:
        """Show an error at the number of executors if they are too few for the master."""
        settings, wanted = self.spark_form.value, self._wanted or 0
        slots = settings.workers * settings.cores_per_worker
        is_known = not (settings.master or "").startswith("local")
        sentence = (
            f"The training master needs {count_text(wanted)} workers, one task slot each. "
            f"Received: {count_text(slots)} slots. Use more executors, or fewer workers."
        )
        is_short = is_known and self.spark_form.layout.display is None and wanted > slots
        if self.spark_form.valid is not None:
            self.spark_form.field("workers").complain(sentence if is_short else "")

    def _edited(self) -> None:
        self._compare_workers()
        self._show_state()
        self._changed()

    def _show_state(self) -> None:
        running = self.is_running
        reason = self.problem
        self.start_button.disabled = running or reason is not None
        self.stop_button.disabled = not running or self._stop_asked
        self.stop_button.description = "Stopping" if running and self._stop_asked else "Stop"
        self.resume_button.disabled = self.start_button.disabled or self.resume is None
        self.why.value = _note(f"Start is disabled: {reason}" if reason and not running else "")

    def _still(self) -> Block | None:
        return None if self.live is None else self.live.still().copy()


def _note(text: str) -> str:
    if not text:
        return ""
    return (
        '<div class="sparkwright-why" role="status"><span aria-hidden="true">⚠</span> '
        f"{escaped(text)}</div>"
    )
