"""All steps from data to a saved model as one panel, over one experiment."""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from sparkwright import Experiment, SharedTrainingMaster, SparkNetwork
from sparkwright.errors import ConfigurationError
from sparkwright.runs import TrainingRun
from sparkwright_widgets._block import Block
from sparkwright_widgets._evaluation_panel import EvaluationPanel
from sparkwright_widgets._format import escaped
from sparkwright_widgets._launch_panel import LaunchPanel
from sparkwright_widgets._master_picker import TrainingMasterPicker
from sparkwright_widgets._model_store import ModelStore
from sparkwright_widgets._network_builder import NetworkBuilder
from sparkwright_widgets._partition_preview import PartitionPreview
from sparkwright_widgets._ui import Part, Text, row

from . import _summaries as summaries
from ._bench import Bench
from ._data_step import DataStep
from ._experiment_file import ExperimentFile
from ._section import Section

_SUMMARY_EVERY_S = 1.0


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
        self._lock = threading.RLock()  # held while the experiment changes: callbacks share it
        self._experiment = Experiment() if experiment is None else experiment
        self._bench, self._models_url = Bench(spark), models_url
        self._told: dict[tuple[str, str], Any] = {}  # what each part knows of the others
        self._pushing = 0  # how often parts are just being told of another experiment
        self._stale = self._refreshing = False
        self._cards: list[Any] = []  # display handles of what stays in a saved notebook
        super().__init__("Workbench", styles=("workbench.css",))
        self.title_field = Text(
            value=self._experiment.title,
            description="Experiment",
            style={"description_width": "initial"},
        )
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

    # --- what is held

    @property
    def experiment(self) -> Experiment:
        """All that is chosen; set it to show another one."""
        return self._experiment

    @experiment.setter
    def experiment(self, experiment: Experiment) -> None:
        with self._lock:
            self._experiment = experiment
            self._pushing += 1
        try:
            self.title_field.value = experiment.title
            for name, push in self._pushes().items():
                if self.sections[name].made is not None:
                    push()
        finally:
            with self._lock:
                self._pushing -= 1
        self._refresh()
        self._changed()

    @property
    def spark(self) -> Any | None:
        """The session; None before one was started or given."""
        return self._bench.spark

    @property
    def data(self) -> dict[str, Any]:
        """The parts of the loaded data by name, DistributedDataSets; empty before."""
        return dict(self._bench.data)

    @property
    def network(self) -> SparkNetwork | None:
        """The network of the last run, or the last one loaded; None before."""
        return self._bench.network

    @property
    def run(self) -> TrainingRun | None:
        """The last run; None before."""
        train = self.sections["train"].made
        return None if train is None else train.run

    @property
    def problem(self) -> str | None:
        """Why nothing can be trained now, in one sentence; None: it can."""
        for name in ("data", "network", "master"):
            part = self.sections[name].made
            if part is not None and part.problem is not None:
                return f"{self.sections[name].title}: {part.problem}"
        return self._experiment.reason

    # --- for cells, which may wait

    def load_data(self) -> dict[str, Any]:
        """Load the data now, starting Spark if need be; blocks. Returns its parts by name."""
        self._bench.load(self._experiment)
        self._data_came()
        return self.data

    def open_step(self, name: str) -> None:
        """Open a step by its name, see `sections`."""
        self.sections[name].set_opened(True)
        self._refresh()

    def start(self) -> TrainingRun:
        """Begin to train now; blocks until the run has begun, and returns it."""
        return self.sections["train"].part.start_now()

    def evaluate(self, data: str | None = None) -> Any:
        """Evaluate the network now, in the step Evaluate; blocks. Returns what was found.

        Args:
            data: a part of the data; default None: "test", else "validation", else "train".
        """
        panel: EvaluationPanel = self.sections["evaluate"].part
        return panel.evaluate(data or next(iter(self._parts_to_evaluate()), None))

    def report(self, url: str) -> None:
        """Write a report of the last run and its evaluations, one HTML file, to any URL; blocks.

        Raises:
            ConfigurationError: if there was no run.
            OSError: whatever the store says.
        """
        if self.run is None:
            raise ConfigurationError(
                "a report is about a run. Received: none. Train first: step Train, Start."
            )
        panel: EvaluationPanel | None = self.sections["evaluate"].made
        found = {} if panel is None else panel.results
        self.run.report(
            url,
            network=self.network,
            evaluations={name: list(result.evaluations) for name, result in found.items()} or None,
            data=self.data,
            title=self._experiment.title,
        )

    # --- the steps

    def _make_data(self) -> DataStep:
        step = DataStep(self._experiment, spark=self.spark, load=self._load)
        step.on_change(
            lambda part: self._update(lambda: {"data": part.source, "normalize": part.normalize})
        )
        return step

    def _make_network(self) -> NetworkBuilder:
        builder = NetworkBuilder(self._experiment.network)
        builder.on_change(lambda part: self._update(lambda: {"network": part.spec}))
        return builder

    def _make_master(self) -> TrainingMasterPicker:
        picker = TrainingMasterPicker(self._experiment.master)
        picker.parallel = self._experiment.parallel
        picker.on_change(
            lambda part: self._update(lambda: {"master": part.master, "parallel": part.parallel})
        )
        return picker

    def _make_partitions(self) -> PartitionPreview:
        master = self._experiment.master
        preview = PartitionPreview(
            self._bench.data.get("train"),
            workers=self._workers,
            batch_size=master.batch_size_per_worker,
            mode=master.repartition,
            strategy=master.repartition_strategy,
            embedded=True,
        )
        preview.on_change(self._repartition_chosen)
        return preview

    def _make_train(self) -> LaunchPanel:
        experiment = self._experiment
        panel = LaunchPanel(
            epochs=experiment.epochs,
            early_stopping=experiment.early_stopping,
            settings=experiment.spark,
            begin=self._begin,
        )
        panel.set_run(
            epochs=experiment.epochs,
            validates=experiment.validate,
            early_stopping=experiment.early_stopping,
        )
        panel.set_spark(self.spark)
        panel.on_change(self._run_chosen)
        panel.on_run(self._run_began)
        panel.on_end(lambda _run: self._network_came())
        return panel

    def _make_evaluate(self) -> EvaluationPanel:
        panel = EvaluationPanel()
        if self.network is not None:
            panel.set_context(network=self.network, data=self._parts_to_evaluate())
        panel.on_change(lambda _panel: self._evaluated())
        return panel

    def _make_models(self) -> ModelStore:
        store = ModelStore(self.network, url=self._models_url)
        if (panel := self.sections["evaluate"].made) is not None:
            store.metrics = _headline(panel)
        store.on_load(self._loaded)
        return store

    def _make_file(self) -> ExperimentFile:
        return ExperimentFile(
            lambda: self._experiment,
            lambda new: setattr(self, "experiment", new),
            report=self.report,
        )

    def _pushes(self) -> dict[str, Callable[[], None]]:
        """What shows the experiment in each part that was made."""

        def master() -> None:
            self.sections["master"].part.master = self._experiment.master
            self.sections["master"].part.parallel = self._experiment.parallel

        def train() -> None:
            panel: LaunchPanel = self.sections["train"].part
            panel.settings = self._experiment.spark
            panel.set_run(
                epochs=self._experiment.epochs,
                validates=self._experiment.validate,
                early_stopping=self._experiment.early_stopping,
            )

        return {
            "data": lambda: self.sections["data"].part.put(self._experiment),
            "network": lambda: setattr(
                self.sections["network"].part, "spec", self._experiment.network
            ),
            "master": master,
            "train": train,
        }

    # --- what happens

    def _toggler(self, section: Section[Any]) -> Callable[[object], None]:
        def toggle(_button: object) -> None:
            section.set_opened(not section.opened)
            self._refresh()

        return toggle

    def _update(self, changes: Callable[[], dict[str, Any]]) -> None:
        """Take what parts hold over into the experiment; `changes` asks them."""
        with self._lock:
            # A part that is just being told of another experiment still holds the one before.
            if self._pushing:
                return
            self._experiment = replace(self._experiment, **changes())
        self._refresh()
        self._changed()

    def _repartition_chosen(self, preview: PartitionPreview) -> None:
        master = replace(
            self._experiment.master,
            repartition=preview.mode,
            repartition_strategy=preview.strategy,
        )
        if master != self._experiment.master:
            if (picker := self.sections["master"].made) is not None:
                picker.master = master
            self._update(lambda: {"master": master})

    def _run_chosen(self, panel: LaunchPanel) -> None:
        if panel.problem is None or panel.problem == self.problem:
            self._update(
                lambda: {
                    "spark": panel.settings,
                    "epochs": panel.epochs,
                    "validate": panel.validates,
                    "early_stopping": panel.early_stopping,
                }
            )

    def _load(self) -> None:
        """Called by the step Data, on a thread of its own."""
        self._bench.load(self._experiment)
        self._data_came()

    def _begin(self, panel: LaunchPanel, resume: str | None) -> TrainingRun:
        """Called by the step Train, on a thread of its own."""
        return self._bench.begin(self._experiment, resume=resume, keep_weights=panel.keeps_weights)

    def _data_came(self) -> None:
        data = self._bench.data
        for name in ("data", "train"):
            if (part := self.sections[name].made) is not None:
                part.set_spark(self.spark)
        if (preview := self.sections["partitions"].made) is not None:
            preview.data = data.get("train")
        self._refresh()
        self._changed()

    def _run_began(self, run: TrainingRun) -> None:
        due_s = time.monotonic()

        def heard(_event: object) -> None:
            nonlocal due_s
            if time.monotonic() >= due_s:
                due_s = time.monotonic() + _SUMMARY_EVERY_S
                self.sections["train"].sum_up(*self._summaries()["train"])

        run.add_listener(heard)
        self._data_came()

    def _network_came(self) -> None:
        network = self.network
        if (panel := self.sections["evaluate"].made) is not None:
            panel.set_context(network=network, data=self._parts_to_evaluate())
        if (store := self.sections["models"].made) is not None:
            store.network = network
        self._refresh()
        self._refresh_cards()
        self._changed()

    def _evaluated(self) -> None:
        panel: EvaluationPanel = self.sections["evaluate"].part
        store: ModelStore | None = self.sections["models"].made
        if store is not None:
            store.metrics = _headline(panel)
        self._refresh()
        self._refresh_cards()

    def _loaded(self, network: SparkNetwork) -> None:
        self._bench.network = network
        train: LaunchPanel = self.sections["train"].part
        train.keeps_weights = True
        self._network_came()

    def _parts_to_evaluate(self) -> dict[str, Any]:
        """Those not trained on first."""
        order = ("test", "validation", "train")
        return {name: self._bench.data[name] for name in order if name in self._bench.data}

    @property
    def _workers(self) -> int:
        return self._experiment.master.workers or self._experiment.spark.workers

    # --- what is seen

    def _refresh(self) -> None:
        """Sum every step up anew, and tell the parts what they need of one another.

        No lock is held meanwhile: parts have locks of their own, and call back while they hold
        them. One thread does it; what changes meanwhile makes it do it once more.
        """
        with self._lock:
            self._stale = True
            if self._refreshing:
                return
            self._refreshing = True
        try:
            while self._take_stale():
                self._show_everything()
        finally:
            with self._lock:
                self._refreshing = False

    def _take_stale(self) -> bool:
        with self._lock:
            stale, self._stale = self._stale, False
            self._refreshing = stale
            return stale

    def _show_everything(self) -> None:
        experiment, bench = self._experiment, self._bench
        master = experiment.master
        shares = isinstance(master, SharedTrainingMaster)
        work = {"workers": self._workers, "batch_size": master.batch_size_per_worker}
        self._tell(
            "master",
            "set_context",
            {"rows": bench.counts or None, "network": experiment.network, "slots": self._workers},
        )
        self._tell(
            "partitions", "set_context", {**work, "kind": "sharing" if shares else "averaging"}
        )
        self._tell(
            "network", "set_context", {**work, "master": "sharing" if shares else "averaging"}
        )
        step: DataStep | None = self.sections["data"].made
        if step is not None:
            self._tell("network", "set_data", step.seen)
        self._tell("train", "set_ready", {"reason": self.problem})
        for name, (state, text) in self._summaries().items():
            self.sections[name].sum_up(state, text)

    def _tell(self, name: str, what: str, known: dict[str, Any]) -> None:
        """Call the method `what` of a part, if it is there and was not told the same before."""
        part = self.sections[name].made
        if part is not None and self._told.get((name, what)) != known:
            self._told[name, what] = known
            getattr(part, what)(**known)

    def _summaries(self) -> dict[str, summaries.Summary]:
        experiment, bench, run = self._experiment, self._bench, self.run
        loaded = bench.rows if bench.source == experiment.data else {}
        evaluations = self.sections["evaluate"].made
        master = experiment.master
        return {
            "data": summaries.data_summary(experiment.data, loaded),
            "network": summaries.network_summary(experiment.network),
            "master": summaries.master_summary(master, parallel=experiment.parallel),
            "partitions": summaries.partition_summary(
                bench.counts if loaded else (),
                self._workers,
                master.repartition,
                master.repartition_strategy,
            ),
            "train": summaries.run_summary(
                None if run is None else run.status, self.problem, experiment.epochs
            ),
            "evaluate": summaries.evaluation_summary(
                self.network is not None, () if evaluations is None else evaluations.results
            ),
            "models": summaries.models_summary(self._models_url, self.network is not None),
            "file": ("ok", f"{experiment.title}: all of the above as one file"),
        }

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
        return {**bundle, "text/html": "", "text/plain": f"Workbench: {self._experiment.title}"}

    def _still(self) -> Block:
        """Where each step stands, the last run, the last evaluation, the experiment."""
        experiment = self._experiment
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


def _headline(panel: EvaluationPanel) -> dict[str, float]:
    """The figures of the last evaluation, which go into a model's file."""
    if not panel.results:
        return {}
    last = list(panel.results.values())[-1]
    found: dict[str, float] = {}
    for evaluation in last.evaluations:
        found.update(evaluation.headline())
    return found
