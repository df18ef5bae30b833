"""Starts training runs, stops them, goes on from checkpoints, and shows the run live."""

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
    close_all,
    row,
)

# The options of an experiment that are chosen here, beside `spark`.
RUN_OPTIONS = (
    "epochs",
    "validate",
    "validate_on",
    "early_stopping",
    "reduce_on_plateau",
    "histograms",
)
_CHECKPOINT = Option(
    name="resume",
    kind="text",
    optional=True,
    none_text="none",
    label="URL of a checkpoint",
    help="A checkpoint, or a folder of checkpoints: then the newest is used.",
)
Begin = Callable[["LaunchPanel", str | None], TrainingRun]


class StoppedBeforeItBeganError(Exception):
    """Stop was pressed while a run was starting."""


class LaunchPanel(Part):
    """Settings of Spark and of a run, Start, Stop, Resume, and the live panel of the run.

    Attributes:
        run: the last run that was started; None before.
        live: its live panel; None before.

    Args:
        network: a SparkNetwork to train; default None: `begin` says what to do.
        data: what to train on.
        epochs: passes over the data; default 5.
        validation: data for the loss after each epoch; default None.
        begin: makes a run: called with this panel and the URL of a checkpoint (None: from the
            start), on a thread of its own.
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
        self._gate = threading.Lock()  # of two that start at once, one does
        self._starting = self._stop_asked = False
        self._on_starting: list[Callable[[], None]] = []
        self._on_run: list[Callable[[TrainingRun], None]] = []
        self._on_end: list[Callable[[TrainingRun], None]] = []
        super().__init__("Train")

        experiment = Experiment(epochs=epochs)
        self.spark_form = ConfigurationForm(experiment.spark)
        self.spark_state = widgets.HTML()
        self.spark_fold = Fold("Spark", [self.spark_state, self.spark_form])
        # Alone, the panel validates on the data that it was given.
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
        # Alone, the panel trains the network that it was given: there is no other.
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

    # --- what is chosen

    @property
    def experiment(self) -> Experiment:
        """An experiment with the valid values of `RUN_OPTIONS` and `spark` chosen here."""
        return replace(self.run_form.value, spark=self.spark_form.value)

    @experiment.setter
    def experiment(self, experiment: Experiment) -> None:
        self.spark_form.set(experiment.spark)
        self.run_form.set(experiment)
        self._show_state()

    @property
    def resume(self) -> str | None:
        """The URL of the checkpoint to go on from; None: none is given."""
        return self.resume_form.values["resume"]

    def set_validation(self, told: str) -> None:
        """Show a note on the validation; empty: none."""
        self.validation_note.value = _note(told)

    @property
    def problem(self) -> str | None:
        """Why nothing can be started now, in one sentence; None: it can."""
        return self.spark_form.problem or self.run_form.problem or self._reason

    def set_ready(self, reason: str | None) -> None:
        """Set why nothing can be started yet; None: it can."""
        self._reason = reason
        self._show_state()

    def set_wanted(self, workers: int | None) -> None:
        """Set how many workers the training master asks for; None: as many as there are."""
        self._wanted = workers
        self._compare_workers()

    def set_weights(self, told: str | None) -> None:
        """Offer to go on with the weights of a network; None: there is none yet."""
        what = "trained weights (none yet)" if told is None else f"the weights of {told}"
        self.weights_choice.description = f"Start from {what}"
        self.weights_choice.disabled = told is None
        if told is None:
            self.weights_choice.value = False

    def set_spark(self, spark: Any | None) -> None:
        """Show the session that is used; None: it will be started with the settings."""
        if spark is None:
            text = "Spark is not running. Start launches it with these settings."
        else:
            master = context_of(spark).master
            text = f"Spark {spark.version} is running at {master} with its own settings."
        self.spark_state.value = advice(text)
        self.spark_form.layout.display = None if spark is None else "none"
        self.spark_fold.set_opened(self.spark_fold.opened and spark is None)
        self._compare_workers()

    # --- acting

    def start(self, resume: str | None = None) -> None:
        """Begin a run, from a checkpoint if `resume` is its URL, on a thread of its own."""
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
        """Begin a run and return it; blocks until it has begun. For a notebook's cell.

        Raises:
            ConfigurationError: if nothing can be started now, or another run is in progress.
        """
        if self.problem is not None or not self._enter():
            raise ConfigurationError(
                "there must be no problem and no other run in progress. Received: "
                f"{self.problem or 'a run in progress'}."
            )
        try:
            run = self._begin(self, resume)
            self._has_begun(run)
        finally:
            self._leave()
        return run

    def stop(self) -> None:
        """End the run soon, keeping what was learned; one that starts ends when it begins."""
        self._stop_asked = True
        if self.run is not None and not self.run.finished:
            self.run.stop()
        self._show_state()

    @property
    def is_running(self) -> bool:
        """Whether a run is starting or going on."""
        return self._starting or (self.run is not None and not self.run.finished)

    @property
    def is_stopping(self) -> bool:
        """Whether the run that goes on was asked to stop."""
        return self.is_running and self._stop_asked

    @property
    def is_starting(self) -> bool:
        """Whether a run is being started."""
        return self._starting

    def check_not_stopped(self) -> None:
        """Raise StoppedBeforeItBeganError if Stop was pressed while the run starts."""
        if self._stop_asked:
            raise StoppedBeforeItBeganError("Stopped before the run started.")

    def on_starting(self, callback: Callable[[], None]) -> None:
        """Call `callback()` when a run begins to start, and when that is over."""
        self._on_starting.append(callback)

    def on_run(self, callback: Callable[[TrainingRun], None]) -> None:
        """Call `callback(run)` when a run has begun."""
        self._on_run.append(callback)

    def on_end(self, callback: Callable[[TrainingRun], None]) -> None:
        """Call `callback(run)` when a run is over, however it ended."""
        self._on_end.append(callback)

    def close(self) -> None:
        """Free the widgets; a run that goes on is not affected."""
        for listeners in (self._on_starting, self._on_run, self._on_end):
            listeners.clear()
        super().close()

    # --- private

    def _begin_given(self, _panel: "LaunchPanel", resume: str | None) -> TrainingRun:
        if self._network is None or self._data is None:
            raise ValueError(
                "there must be something to train. Received: network="
                f"{self._network!r}, data={self._data!r}. Give LaunchPanel both."
            )
        chosen = self.experiment
        return self._network.start(
            self._data,
            epochs=chosen.epochs,
            validation=self._validation if chosen.validate else None,
            early_stopping=chosen.early_stopping,
            callbacks=chosen.callbacks,
            histograms=chosen.histograms,
            resume=resume,
            display=False,
        )

    def _has_begun(self, run: TrainingRun) -> None:
        if self._stop_asked:
            run.stop()
        before, self.run = self.place.children, run
        # One Stop in view is enough; this panel's also works while a run is starting.
        self.live = live = LivePanel(run, has_stop=False)
        shown: list[widgets.Widget] = [live]
        if hasattr(run, "histograms"):
            shown.append(Fold("Histograms of this run", [HistogramView(run)]))
        self.place.children = shown
        for widget in before:
            close_all(widget)
        self._call(self._on_run, run)
        live.on_refresh(lambda: self._look(run))

    def _enter(self) -> bool:
        """Whether a run may begin now; if so, no other may until `_leave`."""
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
        """Show what went wrong; that Stop did what it should is no error."""
        if isinstance(error, StoppedBeforeItBeganError):
            self.say(str(error))
        else:
            super().show_error(error)

    def _look(self, run: TrainingRun) -> None:
        """Called by the live panel about once a minute, and when the run has ended."""
        if not run.finished:
            return
        self._show_state()
        self._call(self._on_end, run)

    def _call(self, callbacks: list[Callable[..., None]], *arguments: Any) -> None:
        """Each is called, whatever another one raises: the run goes on in any case."""
        for callback in list(callbacks):
            try:
                callback(*arguments)
            except Exception as error:
                self.show_error(error)

    def _compare_workers(self) -> None:
        """Show at the number of executors that they are too few for the training master."""
        settings, wanted = self.spark_form.value, self._wanted or 0
        slots = settings.workers * settings.cores_per_worker
        is_known = not (settings.master or "").startswith("local")
        sentence = (
            f"The training master asks for {count_text(wanted)} workers, which need a task slot "
            f"each. Received: {count_text(slots)} slots. Use more executors, or fewer workers."
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
