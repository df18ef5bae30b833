"""All steps from data to a saved model in one panel, for one experiment."""

import time
from typing import Any

import ipywidgets as widgets

from sparkwright import Experiment, SparkNetwork
from sparkwright.data.wording import is_session
from sparkwright.errors import ConfigurationError
from sparkwright.networks import analysis_now
from sparkwright.networks.keras_catalog import is_loaded, load
from sparkwright.runs import TrainingRun
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._format import escaped
from sparkwright_widgets._launch_panel import LaunchPanel
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._ui import Background, Part

from ._actions import OWN, Action, first_step, next_action
from ._bench import Bench
from ._header import Header, facts
from ._refresh import Refresher
from ._section import Rail, Section
from ._steps import Calls, Steps

_PROGRESS_EVERY_S = 1.0


class Workbench(Part):
    """All steps in one panel: data, network, training master, partitions, training, evaluation.

    All settings are one `Experiment`, which a YAML file reproduces. One step is shown at a time.
    The widget of each step also works alone, and is created when the step is first shown.

    Attributes:
        sections: the steps by name: "data", "network", "master", "partitions", "train",
            "evaluate", "models", "runs", "file"; `sections["train"].part` is the LaunchPanel.
        action: the action of the primary button.

    Args:
        spark: a Spark session; default None: the first step that needs Spark starts it, with the
            settings of the step Train.
        experiment: the initial experiment; default None: LeNet on the bundled digits.
    """

    def __init__(
        self,
        spark: Any | None = None,
        experiment: Experiment | None = None,
    ) -> None:
        if spark is not None and not is_session(spark):
            raise ConfigurationError(
                "`spark` must be a Spark session or None. "
                f"Received: spark={type(spark).__name__}. Pass an experiment as "
                "`Workbench(experiment=…)`."
            )
        self._bench = Bench(Experiment() if experiment is None else experiment, spark)
        self._refresher = Refresher(self._show_everything)
        self._refresh = self._refresher.refresh
        self._seen: set[str] = set()  # steps that were shown
        self._was_displayed = self._was_chosen = False
        self._cards: list[Any] = []  # display handles of static copies in a saved notebook
        super().__init__("Workbench", styles=("workbench.css",))
        calls = Calls(
            chosen=self._chosen,
            happened=self._happened,
            began=self._run_began,
            refresh=self._refresh,
            guarded=self.guarded,
            put=lambda experiment: setattr(self, "experiment", experiment),
            report=self.report,
        )
        self._steps = Steps(self._bench, calls)
        self.header = Header(
            self.experiment.title,
            act=self.guarded(lambda _button: self._act()),
            begin=self.guarded(lambda _button: self._begin()),
        )
        self.header.title.observe(self.guarded(self._titled), "value")
        self.rail = Rail(self.guarded(self.open_step))
        main = widgets.VBox(list(self.sections.values()))
        main.add_class("sparkwright-main")
        body = widgets.HBox([self.rail, main])
        body.add_class("sparkwright-body")
        self.add_class("sparkwright-bench")
        self.show(self.header, body)
        self._show_step("data")
        self._keras = Background("keras")  # takes seconds to load
        if not is_loaded():
            self._keras.begin(load, then=lambda _: self._refresh(), otherwise=self.show_error)

    # --- value

    @property
    def sections(self) -> dict[str, Section[Any]]:
        """The steps by name."""
        return self._steps.sections

    @property
    def experiment(self) -> Experiment:
        """The experiment with all settings; setting it updates all steps."""
        return self._bench.state.experiment

    @experiment.setter
    def experiment(self, experiment: Experiment) -> None:
        self._steps.push(experiment)
        self.header.title.value = experiment.title
        self._refresh()
        self._refresh_cards()
        self._changed()

    @property
    def spark(self) -> Any | None:
        """The Spark session; None if none is started or given."""
        return self._bench.state.spark

    @property
    def data(self) -> dict[str, Any]:
        """The parts of the loaded data by name, as DistributedDataSets; empty before loading."""
        return dict(self._bench.state.data)

    @property
    def network(self) -> SparkNetwork | None:
        """The current network: that of the last ended run, or loaded later; None before."""
        self._bench.take_ended()
        hand = self._bench.state.current
        return None if hand is None else hand.network

    @property
    def run(self) -> TrainingRun | None:
        """The last run; None before the first."""
        last = self._bench.state.last
        return None if last is None else last.run

    @property
    def problem(self) -> str | None:
        """Why no run can start, in one sentence; None if it can."""
        for name, problem in self._steps.problems.items():
            return f"{self.sections[name].title}: {problem}"
        if (pending := analysis_now(self.experiment.network)).is_pending:
            return pending.reason
        return self.experiment.reason

    @property
    def step(self) -> str:
        """The name of the current step."""
        return self.rail.here

    # --- blocking calls, for cells

    def load_data(self) -> dict[str, Any]:
        """Load the data, starting Spark if needed, and return its parts by name; blocks."""
        self._bench.load()
        self._happened()
        return self.data

    def open_step(self, name: str) -> None:
        """Show a step by its name, see `sections`."""
        self._was_chosen = True
        self._show_step(name)

    def start(self) -> TrainingRun:
        """Start training and return the run; blocks until the run has started."""
        self._keras.wait()
        builder: NetworkBuilder | None = self.sections["network"].made
        if builder is not None:
            builder.editing.wait()
            self._refresh(wait=True)
        return self.sections["train"].part.start_now()

    def evaluate(self, data: str | None = None) -> Any:
        """Evaluate the current network in the step Evaluate and return the result; blocks.

        Args:
            data: a part of the data; default None: "test", else "validation", else "train".
        """
        self._bench.take_ended()
        panel: EvaluationPanel = self.sections["evaluate"].part
        self._refresh(wait=True)
        return panel.evaluate(data or next(iter(self._bench.state.parts_to_evaluate), None))

    def report(self, url: str) -> None:
        """Write a report of the last run and the evaluations of its network to a URL; blocks.

        Raises:
            ConfigurationError: if there was no run.
            OSError: if the file cannot be written.
        """
        state = self._bench.state
        last = state.last
        if last is None or last.experiment is None:
            raise ConfigurationError(
                "a report needs a run. Received: no run. Press Start in the step Train first."
            )
        panel: EvaluationPanel | None = self.sections["evaluate"].made
        results = {} if panel is None else panel.results
        found = {
            measured.name: list(results[measured.name].evaluations)
            for measured in state.measured
            if measured.of is last and measured.name in results
        }
        last.run.report(
            url,
            network=last.network,
            evaluations=found or None,
            data=dict(last.data),
            title=last.experiment.title,
        )

    # --- user actions

    def _show_step(self, name: str) -> None:
        self.sections[name].set_opened(True)
        for other, section in self.sections.items():
            if other != name:
                section.set_opened(False)
        self._seen.add(name)
        self.rail.here = name
        self._refresh()

    def _act(self) -> None:
        """Run the action of the primary button."""
        action = self.action
        match action.does:
            case "stop":
                self.sections["train"].part.stop()
                self._refresh()
            case "open":
                self.open_step(action.step)
            case "own" if action.step == "train":
                self._begin()
            case "own":
                getattr(self.sections[action.step].part, OWN[action.step][0]).click()

    def _begin(self) -> None:
        self.open_step("train")
        self.sections["train"].part.start()

    def _titled(self, _change: object) -> None:
        self._steps.update(lambda: {"title": self.header.title.value})

    # --- events

    def _chosen(self) -> None:
        """Handle a change of the experiment."""
        self._refresh()
        self._changed()

    def _run_began(self, run: TrainingRun) -> None:
        due_s = time.monotonic()

        def receive(_event: object) -> None:
            nonlocal due_s
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _PROGRESS_EVERY_S
                self._show_progress()

        run.add_listener(receive)
        self._happened()

    def _happened(self) -> None:
        """Handle a change of data, a run, a network or a result."""
        self._bench.take_ended()
        self._refresh()
        self._refresh_cards()
        self._changed()

    # --- showing

    def _show_everything(self) -> None:
        self._steps.sync(self.problem, self.show_error)
        self._show_header()

    def _show_progress(self) -> None:
        self._steps.sum_up(self.problem)
        self._show_header()

    def _show_header(self) -> None:
        self.rail.steps = [section.entry() for section in self.sections.values()]
        panel: LaunchPanel | None = self.sections["train"].made
        self.action = next_action(
            self.step,
            {name: section.state for name, section in self.sections.items()},
            {name: section.title for name, section in self.sections.items()},
            seen=self._seen,
            running=panel is not None and panel.is_running,
            stopping=panel is not None and panel.is_stopping,
            current=self._bench.state.current is not None,
            reason=self._reason,
        )
        part = self.sections[self.action.step].made if self.action.does == "own" else None
        button = None if part is None else getattr(part, OWN[self.action.step][0])
        self.header.show(
            self.action, reason=self._reason, busy=button is not None and button.disabled
        )
        run, live = self.run, None if panel is None else panel.live
        self.header.facts.value = facts(None if run is None else run.status, live)

    action = Action(does="open", step="data", label="")

    @property
    def _reason(self) -> str | None:
        """Why Start is disabled, including problems of the step Train; None if it is enabled."""
        panel: LaunchPanel | None = self.sections["train"].made
        return self.problem or (None if panel is None else panel.problem)

    # --- static output for saved notebooks

    def _ipython_display_(self) -> None:
        """Display the panel, and below it a static card that is kept up to date."""
        from IPython.display import display

        if not (self._was_displayed or self._was_chosen):
            self._show_step(first_step({name: s.state for name, s in self.sections.items()}))
        self._was_displayed = True
        display(self._repr_mimebundle_(), raw=True)
        handle = display(self._still(), display_id=True)
        if handle is not None:
            self._cards.append(handle)

    def _refresh_cards(self) -> None:
        for handle in list(self._cards):
            handle.update(self._still())

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        return {**bundle, "text/html": "", "text/plain": f"Workbench: {self.experiment.title}"}

    def _still(self) -> Block:
        """Static output: the state of each step, the last run and evaluation, the experiment."""
        experiment = self.experiment
        self._steps.sum_up(self.problem)
        steps = [(s.title, s.text) for name, s in self.sections.items() if name != "file"]
        parts = [
            still.html
            for name in ("train", "evaluate")
            if (part := self.sections[name].made) is not None
            and (still := part._still()) is not None
        ]
        items = "".join(
            f"<li><b>{escaped(title)}</b>: {escaped(text)}</li>" for title, text in steps
        )
        html = (
            f"<details><summary>{escaped(experiment.title)}: current state</summary>"
            f"<ol>{items}</ol>{''.join(parts)}"
            f'<pre tabindex="0">{escaped(experiment.to_yaml())}</pre></details>'
        )
        text = "\n".join([experiment.title, *(f"{title}: {text}" for title, text in steps)])
        return Block(html=html, text=text, kind="workbench")
