"""All steps from data to a saved model as one panel, over one experiment."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkwright import Experiment, SparkNetwork
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.networks import analysis_now
from sparkwright.networks.keras_catalog import is_loaded, load
from sparkwright.runs import TrainingRun
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._format import escaped
from sparkwright_widgets._launch_panel import RUN_OPTIONS, LaunchPanel
from sparkwright_widgets._master_picker import TrainingMasterPicker
from sparkwright_widgets._model_store import ModelStore
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._network_builder._data_fit import DataFacts, misfits
from sparkwright_widgets._partition_preview import PartitionPreview
from sparkwright_widgets._ui import Background, Part, Text, row

from . import _summaries as summaries
from ._bench import Bench
from ._data_step import DataStep
from ._experiment_file import ExperimentFile
from ._section import Section
from ._state import BenchState, Context, Measured, contexts

# Step -> option of the experiment -> attribute of the part that holds it.
_CHOICES = {
    "data": {"data": "source", "normalize": "normalize"},
    "network": {"network": "spec"},
    "master": {"master": "master", "parallel": "parallel"},
}
_SUMMARY_EVERY_S = 1.0
_REFRESH_TIMEOUT_S = 10.0


class Workbench(Part):
    """Data, network, training master, partitions, training, evaluation, models: in one panel.

    Everything chosen is one `Experiment`, which one YAML file reproduces. Each step is a part that
    also works alone; it is made when it is opened first.

    Attributes:
        sections: the steps by name: "data", "network", "master", "partitions", "train",
            "evaluate", "models", "file"; `sections["train"].part` is the LaunchPanel.

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
        if spark is not None and not hasattr(spark, "sparkContext"):
            raise ConfigurationError(
                "`spark` must be a Spark session or None. "
                f"Received: spark={type(spark).__name__}. Give an experiment as "
                "`Workbench(experiment=…)`."
            )
        self._lock = threading.RLock()  # of the flags below: callbacks come on any thread
        self._bench = Bench(Experiment() if experiment is None else experiment, spark)
        self._models_url = models_url
        self._told: Context = {}  # what each part knows of the others
        self._pushing = 0  # how often parts are just being told of another experiment
        self._refreshed = threading.Condition(self._lock)
        self._stale = self._refreshing = False
        self._cards: list[Any] = []  # display handles of what stays in a saved notebook
        super().__init__("Workbench", styles=("workbench.css",))
        self.title_field = Text(value=self.experiment.title, description="Experiment")
        self.title_field.observe(
            self.guarded(lambda _change: self._update(lambda: {"title": self.title_field.value})),
            "value",
        )
        steps: list[tuple[str, str, Callable[[], Any]]] = [
            ("data", "Data", self._make_data),
            ("network", "Network", self._make_network),
            ("master", "Training master", self._make_master),
            ("partitions", "Partitions", self._make_partitions),
            ("train", "Train", self._make_train),
            ("evaluate", "Evaluate", self._make_evaluate),
            ("models", "Models", self._make_models),
            ("file", "Experiment file", self._make_file),
        ]
        self.sections: dict[str, Section[Any]] = {
            name: Section(number, title, make)
            for number, (name, title, make) in enumerate(steps, start=1)
        }
        for section in self.sections.values():
            section.button.on_click(self.guarded(self._toggler(section)))
        self.show(row(self.title_field), *self.sections.values())
        self.sections["data"].set_opened(True)
        self._refresh()
        self._keras = Background("keras")  # takes seconds to load
        if not is_loaded():
            self._keras.begin(load, then=lambda _: self._refresh(), otherwise=self.show_error)

    # --- what is held

    @property
    def experiment(self) -> Experiment:
        """All that is chosen; set it to show another one."""
        return self._bench.state.experiment

    @experiment.setter
    def experiment(self, experiment: Experiment) -> None:
        with self._lock:
            self._pushing += 1
        try:
            self._bench.change(lambda state: replace(state, experiment=experiment))
            self.title_field.value = experiment.title
            for name in (*_CHOICES, "train"):
                if (part := self.sections[name].made) is not None:
                    self._push(name, part)
        finally:
            with self._lock:
                self._pushing -= 1
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
        """The network in hand: of the last run that ended, or loaded since; None before."""
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
        for name, problem in self._problems().items():
            return f"{self.sections[name].title}: {problem}"
        if (pending := analysis_now(self.experiment.network)).is_pending:
            return pending.reason
        return self._bench.state.reason

    # --- for cells, which may wait

    def load_data(self) -> dict[str, Any]:
        """Load the data now, starting Spark if need be; blocks. Returns its parts by name."""
        self._bench.load()
        self._happened()
        return self.data

    def open_step(self, name: str) -> None:
        """Open a step by its name, see `sections`."""
        self.sections[name].set_opened(True)
        self._refresh()

    def start(self) -> TrainingRun:
        """Begin to train now; blocks until the run has begun, and returns it."""
        self._keras.wait()
        builder: NetworkBuilder | None = self.sections["network"].made
        if builder is not None:
            builder.editing.wait()
            self._refresh(wait=True)
        return self.sections["train"].part.start_now()

    def evaluate(self, data: str | None = None) -> Any:
        """Evaluate the network in hand now, in the step Evaluate; blocks. Returns what was found.

        Args:
            data: a part of the data; default None: "test", else "validation", else "train".
        """
        self._bench.take_ended()
        panel: EvaluationPanel = self.sections["evaluate"].part
        self._refresh(wait=True)
        return panel.evaluate(data or next(iter(self._bench.state.parts_to_evaluate), None))

    def report(self, url: str) -> None:
        """Write a report of the last run and what was evaluated of its network; blocks.

        Args:
            url: where to: a path, or any URL; ".pdf" at its end makes a PDF.

        Raises:
            ConfigurationError: if there was no run.
            OSError: whatever the store says.
        """
        state = self._bench.state
        last = state.last
        if last is None or last.experiment is None:
            raise ConfigurationError(
                "a report is about a run. Received: none. Train first: step Train, Start."
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

    # --- the steps

    def _make_data(self) -> DataStep:
        return self._follow("data", DataStep(self.experiment, spark=self.spark, load=self._load))

    def _make_network(self) -> NetworkBuilder:
        return self._follow("network", NetworkBuilder(self.experiment.network))

    def _make_master(self) -> TrainingMasterPicker:
        experiment = self.experiment
        picker = TrainingMasterPicker(experiment.master, parallel=experiment.parallel)
        return self._follow("master", picker)

    def _make_partitions(self) -> PartitionPreview:
        master = self.experiment.master
        preview = PartitionPreview(
            mode=master.repartition, strategy=master.repartition_strategy, embedded=True
        )
        preview.on_change(self._repartition_chosen)
        return preview

    def _make_train(self) -> LaunchPanel:
        panel = LaunchPanel(begin=self._begin)
        panel.experiment = self.experiment
        self._follow("train", panel)
        panel.on_starting(self._refresh)
        panel.on_run(self._run_began)
        panel.on_end(lambda _run: self._happened())
        return panel

    def _make_evaluate(self) -> EvaluationPanel:
        panel = EvaluationPanel()
        panel.on_change(lambda _panel: self._evaluated())
        return panel

    def _make_models(self) -> ModelStore:
        store = ModelStore(url=self._models_url, loader=self._bench.load_network)
        store.on_load(lambda network: self._loaded(store, network))
        store.on_change(lambda _store: self._refresh())
        return store

    def _make_file(self) -> ExperimentFile:
        return ExperimentFile(
            lambda: self.experiment,
            lambda new: setattr(self, "experiment", new),
            report=self.report,
        )

    def _follow(self, name: str, part: Any) -> Any:
        """Take over into the experiment what a part holds whenever that changes."""
        part.on_change(lambda part: self._update(lambda: _chosen(name, part)))
        return part

    def _push(self, name: str, part: Any) -> None:
        """Show the experiment in a part."""
        if name == "train":
            part.experiment = self.experiment
            return
        for option, attribute in _CHOICES[name].items():
            setattr(part, attribute, getattr(self.experiment, option))

    def _problems(self) -> dict[str, str]:
        """What is wrong in each step that says so; also of the network before it is opened."""
        found: dict[str, str] = {}
        for name in ("data", "network", "master"):
            part = self.sections[name].made
            if part is not None and part.problem is not None:
                found[name] = part.problem
        step: DataStep | None = self.sections["data"].made
        if step is not None and self.sections["network"].made is None:
            spec = self.experiment.network
            facts = DataFacts(**step.seen)
            unfit = misfits(spec, analysis_now(spec), facts)
            wrong = [each.sentence for each in unfit if each.stops]
            if wrong:
                found["network"] = wrong[0]
        return found

    # --- what happens

    def _toggler(self, section: Section[Any]) -> Callable[[object], None]:
        def toggle(_button: object) -> None:
            section.set_opened(not section.opened)
            self._refresh()

        return toggle

    def _update(self, changes: Callable[[], dict[str, Any]]) -> None:
        """Take what parts hold over into the experiment; `changes` asks them."""
        # A part that is just being told of another experiment still holds the one before.
        if self._pushing:
            return
        self._bench.change(
            lambda state: replace(state, experiment=replace(state.experiment, **changes()))
        )
        self._refresh()
        self._changed()

    def _repartition_chosen(self, preview: PartitionPreview) -> None:
        master = replace(
            self.experiment.master,
            repartition=preview.mode,
            repartition_strategy=preview.strategy,
        )
        # The preview also tells of counts, and before it is told of the master's choice.
        known = (self._told.get(("partitions", "mode")), self._told.get(("partitions", "strategy")))
        if self._pushing or (preview.mode, preview.strategy) == known:
            return
        if (picker := self.sections["master"].made) is not None:
            picker.master = master
        self._update(lambda: {"master": master})

    def _load(self) -> None:
        """Called by the step Data, on a thread of its own."""
        self._bench.load(anew=True)
        self._happened()

    def _begin(self, panel: LaunchPanel, resume: str | None) -> TrainingRun:
        """Called by the step Train, on a thread of its own."""
        self._bench.load(tell=panel.say)
        panel.check_not_stopped()
        panel.say("Building the network …")
        return self._bench.begin(resume=resume, keep_weights=panel.keeps_weights)

    def _run_began(self, run: TrainingRun) -> None:
        due_s = time.monotonic()

        def heard(_event: object) -> None:
            nonlocal due_s
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _SUMMARY_EVERY_S
                self.sections["train"].sum_up(*self._summaries()["train"])

        run.add_listener(heard)
        self._happened()

    def _evaluated(self) -> None:
        panel: EvaluationPanel = self.sections["evaluate"].part
        results = dict(panel.results)

        def note(state: BenchState) -> BenchState:
            measured = {each.name: each for each in state.measured if each.name in results}
            hand = state.in_hand
            if hand is not None:
                for name in results.keys() - measured.keys():
                    measured[name] = Measured(name=name, of=hand, figures=_figures(results[name]))
            return replace(state, measured=tuple(measured.values()))

        self._bench.change(note)
        self._happened()

    def _loaded(self, store: ModelStore, network: SparkNetwork) -> None:
        self._bench.hold(network, told=store.ticked[0].url if store.ticked else "a saved model")
        self._happened()

    def _happened(self) -> None:
        """Something other than a choice has changed: data, a run, a network, a result."""
        self._bench.take_ended()
        self._refresh()
        self._refresh_cards()
        self._changed()

    # --- what is seen

    def _refresh(self, *, wait: bool = False) -> None:
        """Sum every step up anew, and tell the parts what they need of one another.

        No lock is held meanwhile: parts have locks of their own, and call back while they hold
        them. One thread does it; what changes meanwhile makes it do it once more.

        Args:
            wait: for another thread that does it already; default False.
        """
        with self._lock:
            self._stale = True
            if self._refreshing:
                if wait and not self._refreshed.wait_for(
                    lambda: not self._refreshing, timeout=_REFRESH_TIMEOUT_S
                ):
                    raise RunTimeoutError(
                        f"the workbench waited {_REFRESH_TIMEOUT_S:g} s for another thread to tell "
                        "its parts of what has changed. Try again."
                    )
                return
            self._refreshing = True
        try:
            while self._take_stale():
                self._show_everything()
        except BaseException:
            self._end_refresh()
            raise

    def _take_stale(self) -> bool:
        with self._lock:
            stale, self._stale = self._stale, False
            if not stale:
                self._end_refresh()
            return stale

    def _end_refresh(self) -> None:
        with self._lock:
            self._refreshing = False
            self._refreshed.notify_all()

    def _show_everything(self) -> None:
        step: DataStep | None = self.sections["data"].made
        seen = None if step is None else step.seen
        told = contexts(self._bench.state, seen=seen, problem=self.problem)
        for (name, what), known in told.items():
            self._tell(name, what, known)
        file: ExperimentFile | None = self.sections["file"].made
        if file is not None:
            file.follow()
        for name, (state, text) in self._summaries().items():
            self.sections[name].sum_up(state, text)

    def _tell(self, name: str, what: str, known: Any) -> None:
        """Tell a part, if it is there and was not told the same before."""
        part = self.sections[name].made
        if part is None or ((name, what) in self._told and self._told[name, what] == known):
            return
        before = self._told.get((name, what))
        self._told[name, what] = known  # before it is told: it may call back meanwhile
        try:
            if callable(getattr(type(part), what, None)):
                getattr(part, what)(**known)
            else:
                setattr(part, what, known)
        except Exception as error:
            self._told[name, what] = before
            self.show_error(error)

    def _summaries(self) -> dict[str, summaries.Summary]:
        state, run = self._bench.state, self.run
        experiment, master = state.experiment, state.experiment.master
        store: ModelStore | None = self.sections["models"].made
        problems = self._problems()
        loaded = state.rows if state.is_loaded else {}
        train: LaunchPanel | None = self.sections["train"].made
        found: dict[str, summaries.Summary] = {
            "data": summaries.data_summary(experiment.data, loaded),
            "network": summaries.network_summary(experiment.network),
            "master": summaries.master_summary(master, parallel=experiment.parallel),
            "partitions": summaries.partition_summary(
                state.counts if state.is_loaded else (),
                state.workers,
                master.repartition,
                master.repartition_strategy,
            ),
            "train": ("running", "starting")
            if train is not None and train.is_starting
            else summaries.run_summary(
                None if run is None else run.status, self.problem, experiment.epochs
            ),
            "evaluate": summaries.evaluation_summary(
                state.in_hand, sum(each.of is state.in_hand for each in state.measured)
            ),
            "models": summaries.models_summary(
                self._models_url if store is None else store.url,
                state.in_hand,
                0 if store is None else len(store.models),
            ),
            "file": ("ok", f"{experiment.title}: all of the above as one file"),
        }
        for name, problem in problems.items():
            found[name] = ("problem", problem)
        return found

    # --- what stays in a saved notebook

    def _ipython_display_(self) -> None:
        """The panel, and below it a card that is kept up to date for those who read the file."""
        from IPython.display import display

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
        steps = [
            (self.sections[name].title, text)
            for name, (_state, text) in self._summaries().items()
            if name != "file"
        ]
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
            f"<details><summary>{escaped(experiment.title)}: where it stands</summary>"
            f"<ol>{items}</ol>{''.join(parts)}"
            f'<pre tabindex="0">{escaped(experiment.to_yaml())}</pre></details>'
        )
        text = "\n".join([experiment.title, *(f"{title}: {text}" for title, text in steps)])
        return Block(html=html, text=text, kind="workbench")


def _chosen(name: str, part: Any) -> dict[str, Any]:
    """The options of the experiment that a part holds."""
    if name == "train":
        experiment = part.experiment
        return {each: getattr(experiment, each) for each in ("spark", *RUN_OPTIONS)}
    return {each: getattr(part, attribute) for each, attribute in _CHOICES[name].items()}


def _figures(result: Any) -> dict[str, float]:
    found: dict[str, float] = {}
    for evaluation in result.evaluations:
        found.update(evaluation.headline())
    return found
