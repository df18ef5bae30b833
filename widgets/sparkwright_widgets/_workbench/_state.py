"""Where a workbench stands, as one value: what belongs together is changed together. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkwright import Experiment, SharedTrainingMaster
from sparkwright.data import DataSource
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._master_picker._outlook import crowd_of

# (step, method or attribute of its part) -> arguments of the method, or the attribute's value.
Context = dict[tuple[str, str], Any]
_BEST_TO_EVALUATE = ("test", "validation", "train")  # what was not trained on first


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trained:
    """A network with the run that trained it, or loaded from a file: then without run."""

    network: Any
    told: str  # where it is from, such as "run-3" or the URL of its file
    spec: NetworkSpec | None = None  # None if its layers have no description
    run: Any = None
    experiment: Experiment | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])  # that the run had loaded


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A result of the step Evaluate: which network it is of, and its figures by name."""

    name: str
    of: Trained
    figures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchState:
    """Where a workbench stands."""

    experiment: Experiment
    spark: Any = None
    slots: int | None = None  # tasks that the session can run at once
    source: DataSource | None = None  # of the loaded data; None: nothing is loaded
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])  # its parts by name
    rows: Mapping[str, int] = field(default_factory=dict[str, int])  # examples in each part
    counts: tuple[int, ...] = ()  # examples in each partition of the training data
    in_hand: Trained | None = None  # the network that is evaluated, saved and continued
    last: Trained | None = None  # that of the last run, which may be in progress
    last_taken: bool = False  # whether the last run has ended and its network is the current one
    measured: tuple[Measured, ...] = ()

    @property
    def is_loaded(self) -> bool:
        """Whether what is loaded is what the experiment says."""
        return self.source == self.experiment.data

    @property
    def workers(self) -> int:
        """How many workers a run will have, as far as known."""
        return self.experiment.master.workers or self.slots or self.experiment.spark.workers

    @property
    def parts_to_evaluate(self) -> dict[str, Any]:
        """The parts of the loaded data, those that were not trained on first."""
        return {name: self.data[name] for name in _BEST_TO_EVALUATE if name in self.data}

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of the last result of the current network, named by figure and result."""
        for measured in reversed(self.measured):
            if measured.of is self.in_hand:
                return {f"{n} ({measured.name})": value for n, value in measured.figures.items()}
        return {}

    @property
    def known_slots(self) -> int | None:
        """Tasks that Spark can run at once: of the session, else by the settings; None: unknown."""
        settings = self.experiment.spark
        if self.slots is not None or (settings.master or "").startswith("local"):
            return self.slots
        return settings.workers * settings.cores_per_worker

    @property
    def crowd(self) -> str:
        """Why the master's workers do not fit Spark; empty: they do, as far as known."""
        experiment = self.experiment
        return crowd_of(experiment.master, self.known_slots, parallel=experiment.parallel)


def contexts(state: BenchState, *, seen: dict[str, Any] | None, problem: str | None) -> Context:
    """(step, what) -> value: arguments where `what` is a method of the part, else the attribute.

    `seen`: examples seen by the step Data, if it was made; `problem`: why no run can begin.
    """
    master = state.experiment.master
    kind = "sharing" if isinstance(master, SharedTrainingMaster) else "averaging"
    work = {"workers": state.workers, "batch_size": master.batch_size_per_worker}
    hand = state.in_hand
    network = None if hand is None else hand.network
    found: Context = {
        ("data", "set_spark"): {"spark": state.spark},
        ("network", "set_context"): {**work, "master": kind},
        ("master", "set_context"): {
            "rows": state.counts or None,
            "network": state.experiment.network,
            "slots": state.known_slots,
            "seed": state.experiment.seed,
        },
        ("partitions", "mode"): master.repartition,
        ("partitions", "strategy"): master.repartition_strategy,
        ("partitions", "set_context"): {**work, "kind": kind},
        ("partitions", "data"): state.data.get("train"),
        ("train", "set_spark"): {"spark": state.spark},
        ("data", "set_loaded"): {"loaded": state.is_loaded},
        ("train", "set_ready"): {"reason": problem},
        ("train", "set_wanted"): {"workers": None if state.experiment.parallel else master.workers},
        ("train", "set_weights"): {"told": _weights(hand, state)},
        ("train", "set_validation"): {"told": _validation(state.experiment)},
        ("evaluate", "set_context"): {"network": network, "data": state.parts_to_evaluate},
        ("models", "network"): network,
        ("models", "metrics"): state.metrics,
    }
    return found if seen is None else {**found, ("network", "set_data"): seen}


def _validation(experiment: Experiment) -> str:
    if experiment.validate and experiment.validation is None:
        part = experiment.validate_on
        return f"Validation: none. The step Data reserves no data for the {part} part."
    return experiment.note


def _weights(hand: Trained | None, state: BenchState) -> str | None:
    if hand is None:
        return None
    differs = hand.spec is not None and hand.spec != state.experiment.network
    return f"{hand.told}{', whose layers are not those of the step Network' if differs else ''}"
