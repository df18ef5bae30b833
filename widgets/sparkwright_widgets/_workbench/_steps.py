"""Create the parts of the steps, pass data between them, and apply their choices."""

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

from sparkwright import Experiment, SparkNetwork
from sparkwright.networks import analysis_now
from sparkwright.runs import TrainingRun
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._launch_panel import RUN_OPTIONS, LaunchPanel
from sparkwright_widgets._master_picker import TrainingMasterPicker
from sparkwright_widgets._model_store import ModelStore
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._network_builder._data_fit import DataFacts, misfits
from sparkwright_widgets._partition_preview import PartitionPreview
from sparkwright_widgets._runs_table import RunsTable

from . import _summaries as summaries
from ._actions import OWN
from ._bench import Bench
from ._data_step import DataStep
from ._experiment_file import ExperimentFile
from ._section import Section
from ._state import Context, contexts

# Step -> option of the experiment -> attribute of the part that holds it.
_CHOICES = {
    "data": {"data": "source", "normalize": "normalize"},
    "network": {"network": "spec"},
    "master": {"master": "master", "parallel": "parallel"},
}


class Calls(NamedTuple):
    chosen: Callable[[], None]  # the user has changed the experiment
    happened: Callable[[], None]  # data, a run, a network or a result has changed
    began: Callable[[TrainingRun], None]
    refresh: Callable[[], None]  # other visible state has changed
    guarded: Callable[[Callable[..., None]], Callable[..., None]]  # shows exceptions
    put: Callable[[Experiment], None]  # shows another experiment
    report: Callable[[str], None]  # writes the report of the last run to a URL


class Steps:
    """The sections of the workbench by name, in order, and the data that their parts exchange."""

    def __init__(self, bench: Bench, calls: Calls) -> None:
        self._bench, self._calls = bench, calls
        self._passed: Context = {}  # the values passed to the parts
        self._lock = threading.Lock()  # guards the count; callbacks run on any thread
        self._pushing = 0  # calls of `push` under way
        makers: list[tuple[str, str, Callable[[], Any]]] = [
            ("data", "Data", self._make_data),
            ("network", "Network", self._make_network),
            ("master", "Training master", self._make_master),
            ("partitions", "Partitions", self._make_partitions),
            ("train", "Train", self._make_train),
            ("evaluate", "Evaluate", self._make_evaluate),
            ("models", "Models", self._make_models),
            ("runs", "Runs", self._make_runs),
            ("file", "Experiment file", self._make_file),
        ]
        self.sections: dict[str, Section[Any]] = {
            name: Section(name, title, self._maker(name, make)) for name, title, make in makers
        }

    # --- creating the parts

    def _maker(self, name: str, make: Callable[[], Any]) -> Callable[[], Any]:
        def made() -> Any:
            part = make()
            if name in OWN:  # the primary button replaces it, and mirrors its `disabled`
                button = getattr(part, OWN[name][0])
                button.button_style = ""
                button.observe(
                    self._calls.guarded(lambda _change: self._calls.refresh()), "disabled"
                )
            return part

        return made

    def _make_data(self) -> DataStep:
        step = DataStep(self._experiment, spark=self._bench.state.spark, load=self._load)
        return self._follow("data", step)

    def _make_network(self) -> NetworkBuilder:
        return self._follow("network", NetworkBuilder(self._experiment.network))

    def _make_master(self) -> TrainingMasterPicker:
        experiment = self._experiment
        picker = TrainingMasterPicker(experiment.master, parallel=experiment.parallel)
        return self._follow("master", picker)

    def _make_partitions(self) -> PartitionPreview:
        master = self._experiment.master
        preview = PartitionPreview(
            mode=master.repartition, strategy=master.repartition_strategy, embedded=True
        )
        preview.on_change(self.repartition_chosen)
        return preview

    def _make_train(self) -> LaunchPanel:
        panel = LaunchPanel(begin=self._begin)
        panel.buttons.layout.display = "none"  # the header has these buttons
        panel.experiment = self._experiment
        self._follow("train", panel)
        panel.on_starting(self._calls.refresh)
        panel.on_run(self._calls.began)
        panel.on_end(lambda _run: self._calls.happened())
        return panel

    def _make_evaluate(self) -> EvaluationPanel:
        panel = EvaluationPanel()
        panel.on_change(lambda panel: self._evaluated(panel))
        return panel

    def _make_models(self) -> ModelStore:
        store = ModelStore(loader=self._bench.load_network)
        store.on_load(lambda network: self._model_loaded(store, network))
        store.on_change(lambda _store: self._calls.refresh())
        return store

    def _make_runs(self) -> RunsTable:
        table = RunsTable()
        table.on_change(lambda _table: self._calls.refresh())
        return table

    def _make_file(self) -> ExperimentFile:
        return ExperimentFile(lambda: self._experiment, self._calls.put, report=self._calls.report)

    def _follow(self, name: str, part: Any) -> Any:
        """Update the experiment whenever the part changes."""
        part.on_change(lambda part: self.update(lambda: _held(name, part)))
        return part

    # --- the experiment

    @property
    def _experiment(self) -> Experiment:
        return self._bench.state.experiment

    def update(self, changes: Callable[[], dict[str, Any]]) -> None:
        """Update the experiment with the options that `changes` returns."""
        # A part that is receiving another experiment still holds the previous one.
        if self._pushing:
            return
        self._bench.change(
            lambda state: replace(state, experiment=replace(state.experiment, **changes()))
        )
        self._calls.chosen()

    def push(self, experiment: Experiment) -> None:
        """Replace the experiment, and show it in the existing parts."""
        with self._lock:
            self._pushing += 1
        try:
            self._bench.change(lambda state: replace(state, experiment=experiment))
            for name in (*_CHOICES, "train"):
                part = self.sections[name].made
                if part is None:
                    continue
                if name == "train":
                    part.experiment = experiment
                    continue
                for option, attribute in _CHOICES[name].items():
                    setattr(part, attribute, getattr(experiment, option))
        finally:
            with self._lock:
                self._pushing -= 1

    def repartition_chosen(self, preview: PartitionPreview) -> None:
        """Apply the choice of the step Partitions to the training master."""
        master = replace(
            self._experiment.master,
            repartition=preview.mode,
            repartition_strategy=preview.strategy,
        )
        # The preview also calls after counting, and before it receives the master's choice.
        known = (
            self._passed.get(("partitions", "mode")),
            self._passed.get(("partitions", "strategy")),
        )
        if self._pushing or (preview.mode, preview.strategy) == known:
            return
        if (picker := self.sections["master"].made) is not None:
            picker.master = master
        self.update(lambda: {"master": master})

    # --- on background threads

    def _load(self) -> None:
        self._bench.load(reload=True)
        self._calls.happened()

    def _begin(self, panel: LaunchPanel, resume: str | None) -> TrainingRun:
        self._bench.load(tell=panel.say)
        panel.check_not_stopped()
        panel.say("Building the network …")
        return self._bench.begin(resume=resume, keep_weights=panel.weights_choice.value)

    def _evaluated(self, panel: EvaluationPanel) -> None:
        self._bench.note_results(
            {name: summaries.figures(result) for name, result in panel.results.items()}
        )
        self._calls.happened()

    def _model_loaded(self, store: ModelStore, network: SparkNetwork) -> None:
        self._bench.hold(network, origin=store.ticked[0].url if store.ticked else "a saved model")
        self._calls.happened()

    # --- state of the steps

    @property
    def problems(self) -> dict[str, str]:
        """The problems by step; the network is checked even before its step is opened."""
        found: dict[str, str] = {}
        for name in ("data", "network", "master"):
            part = self.sections[name].made
            if part is not None and part.problem is not None:
                found[name] = part.problem
        if "master" not in found and (unmet := self._bench.state.slots_problem):
            found["master"] = unmet
        step: DataStep | None = self.sections["data"].made
        if step is not None and self.sections["network"].made is None:
            spec = self._experiment.network
            unfit = misfits(spec, analysis_now(spec), DataFacts(**step.seen))
            wrong = [each.sentence for each in unfit if each.stops]
            if wrong:
                found["network"] = wrong[0]
        return found

    def sync(self, problem: str | None, show_error: Callable[[BaseException], None]) -> None:
        """Pass the state to each part, and summarize every step."""
        step: DataStep | None = self.sections["data"].made
        seen = None if step is None else step.seen
        for (name, what), known in contexts(self._bench.state, seen=seen, problem=problem).items():
            try:
                self._pass_on(name, what, known)
            except Exception as error:
                show_error(error)
        file: ExperimentFile | None = self.sections["file"].made
        if file is not None:
            file.follow()
        self.sum_up(problem)

    def _pass_on(self, name: str, what: str, known: Any) -> None:
        """Pass a value to an existing part, unless it has this value already."""
        part = self.sections[name].made
        if part is None or ((name, what) in self._passed and self._passed[name, what] == known):
            return
        before = self._passed.get((name, what))
        self._passed[name, what] = known  # before the call, in which the part may call back
        try:
            if callable(getattr(type(part), what, None)):
                getattr(part, what)(**known)
            else:
                setattr(part, what, known)
        except Exception:
            self._passed[name, what] = before
            raise

    def sum_up(self, problem: str | None) -> None:
        """Show the state of each step; `problem`: why no run can start."""
        store: ModelStore | None = self.sections["models"].made
        stored: RunsTable | None = self.sections["runs"].made
        train: LaunchPanel | None = self.sections["train"].made
        found = summaries.of_steps(
            self._bench.state,
            problems=self.problems,
            problem=problem,
            is_starting=train is not None and train.is_starting,
            models_url="models" if store is None else store.url,
            models=0 if store is None else len(store.models),
            runs=None if stored is None else len(stored.runs),
        )
        for name, (state, text) in found.items():
            self.sections[name].sum_up(state, text)


def _held(name: str, part: Any) -> dict[str, Any]:
    """The options of the experiment that a part edits."""
    if name == "train":
        experiment = part.experiment
        return {each: getattr(experiment, each) for each in ("spark", *RUN_OPTIONS)}
    return {each: getattr(part, attribute) for each, attribute in _CHOICES[name].items()}
