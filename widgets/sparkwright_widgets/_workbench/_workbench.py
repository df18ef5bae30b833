"""All steps from data to a saved model as one panel, over one experiment."""

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
from ._rail import Rail
from ._refresh import Refresher
from ._section import Section
from ._steps import Calls, Steps

_PROGRESS_EVERY_S = 1.0


class Workbench(Part):
    """Data, network, training master, partitions, training, evaluation, models: in one panel.

    Everything chosen is one `Experiment`, which one YAML file reproduces. One step is shown at a
    time; each is a part that also works alone, and is made when it is shown first.

    Attributes:
        sections: the steps by name: "data", "network", "master", "partitions", "train",
            "evaluate", "models", "runs", "file"; `sections["train"].part` is the LaunchPanel.
        action: what the one primary button does.

    Args:
        spark: a session; default None: the first step that needs Spark starts it, with the
            settings of the step Train.
        experiment: what to begin with; default: LeNet on the bundled digits.
        models_url: the folder of models at first; default "models", beside the notebook.
    """

    def __init__(
        self,
        spark: Any | None = None,
        experiment: Experiment | None = None,
        *,
        models_url: str = "models",
    ) -> None:
        if spark is not None and not is_session(spark):
            raise ConfigurationError(
                "`spark` must be a Spark session or None. "
                f"Received: spark={type(spark).__name__}. Give an experiment as "
                "`Workbench(experiment=…)`."
            )
        self._bench = Bench(Experiment() if experiment is None else experiment, spark)
        self._refresher = Refresher(self._show_everything)
        self._refresh = self._refresher.refresh
        self._seen: set[str] = set()  # steps that were shown
        self._was_displayed = self._was_chosen = False
        self._cards: list[Any] = []  # display handles of what stays in a saved notebook
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
        self._steps = Steps(self._bench, calls, models_url=models_url)
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

    # --- what is held

    @property
    def sections(self) -> dict[str, Section[Any]]:
        """The steps by name."""
        return self._steps.sections

    @property
    def experiment(self) -> Experiment:
        """All that is chosen; set it to show another one."""
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
        """The session; None before one was started or given."""
        return self._bench.state.spark

    @property
    def data(self) -> dict[str, Any]:
        """The parts of the loaded data by name, DistributedDataSets; empty before."""
        return dict(self._bench.state.data)

    @property
    def network(self) -> SparkNetwork | None:
        """The current network: of the last run that ended, or loaded since; None before."""
        self._bench.take_ended()
        hand = self._bench.state.in_hand
        return None if hand is None else hand.network

    @property
    def run(self) -> TrainingRun | None:
        """The last run; None before."""
        last = self._bench.state.last
        return None if last is None else last.run

    @property
    def problem(self) -> str | None:
        """Why nothing can be trained now, in one sentence; None: it can."""
        for name, problem in self._steps.problems.items():
            return f"{self.sections[name].title}: {problem}"
        if (pending := analysis_now(self.experiment.network)).is_pending:
            return pending.reason
        return self.experiment.reason

    @property
    def step(self) -> str:
        """The name of the step that is shown."""
        return self.rail.here

    # --- for cells, which may wait

    def load_data(self) -> dict[str, Any]:
        """Load the data now, starting Spark if need be; blocks. Returns its parts by name."""
        self._bench.load()
        self._happened()
        return self.data

    def open_step(self, name: str) -> None:
        """Show a step by its name, see `sections`."""
        self._was_chosen = True
        self._show_step(name)

    def start(self) -> TrainingRun:
        """Begin to train now; blocks until the run has begun, and returns it."""
        self._keras.wait()
        builder: NetworkBuilder | None = self.sections["network"].made
        if builder is not None:
            builder.editing.wait()
            self._refresh(wait=True)
        return self.sections["train"].part.start_now()

    def evaluate(self, data: str | None = None) -> Any:
        """Evaluate the current network, in the step Evaluate; blocks. Returns what was found.

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
                "a report needs a run. Received: no run. Train first: step Train, Start."
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

    # --- what a person does

    def _show_step(self, name: str) -> None:
        self.sections[name].set_opened(True)
        for other, section in self.sections.items():
            if other != name:
                section.set_opened(False)
        self._seen.add(name)
        self.rail.here = name
        self._refresh()

    def _act(self) -> None:
        """Do what the primary button reads."""
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

    # --- what happens

    def _chosen(self) -> None:
        """A choice has changed the experiment."""
        self._refresh()
        self._changed()

    def _run_began(self, run: TrainingRun) -> None:
        due_s = time.monotonic()

        def heard(_event: object) -> None:
            nonlocal due_s
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _PROGRESS_EVERY_S
                self._show_progress()

        run.add_listener(heard)
        self._happened()

    def _happened(self) -> None:
        """Something other than a choice has changed: data, a run, a network, a result."""
        self._bench.take_ended()
        self._refresh()
        self._refresh_cards()
        self._changed()

    # --- what is seen

    def _show_everything(self) -> None:
        self._steps.tell(self.problem, self.show_error)
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
            in_hand=self._bench.state.in_hand is not None,
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
        """Why Start is disabled, a mistake in the step Train included; None: it is not."""
        panel: LaunchPanel | None = self.sections["train"].made
        return self.problem or (None if panel is None else panel.problem)

    # --- what stays in a saved notebook

    def _ipython_display_(self) -> None:
        """The panel, and below it a card that is kept up to date for those who read the file."""
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
        """Where each step stands, the last run, the last evaluation, the experiment."""
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
