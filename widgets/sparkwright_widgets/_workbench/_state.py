"""The state of a workbench as one immutable value. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkwright import Experiment, SharedTrainingMaster
from sparkwright.data import DataSource
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._master_picker._forecast_section import slots_problem

# (step, method or attribute of its part) -> arguments of the method, or value of the attribute.
Context = dict[tuple[str, str], Any]
_BEST_TO_EVALUATE = ("test", "validation", "train")  # parts not used for training come first


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Trained:
    """A network with the run that trained it; `run` is None if it was loaded from a file."""

    network: Any
    origin: str  # name of its run, such as "run-3", or URL of its file
    spec: NetworkSpec | None = None  # None if its layers have no description
    run: Any = None
    experiment: Experiment | None = None
    data: Mapping[str, Any] = field(default_factory=dict[str, Any])  # data loaded for the run


@dataclass(frozen=True, kw_only=True, slots=True)
class Measured:
    """A result of the step Evaluate: its network and its figures by name."""

    name: str
    of: Trained
    figures: Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchState:
    experiment: Experiment
    spark: Any = None
    slots: int | None = None  # concurrent tasks of the session
    source: DataSource | None = None  # source of the loaded data; None: nothing is loaded
    data: Mapping[str, Any] = field(
        default_factory=dict[str, Any]
    )  # parts of the loaded data by name
    rows: Mapping[str, int] = field(default_factory=dict[str, int])  # examples in each part
    counts: tuple[int, ...] = ()  # examples in each partition of the training data
    current: Trained | None = None  # the network that is evaluated, saved and continued
    last: Trained | None = None  # network of the last run, which may be in progress
    last_taken: bool = False  # whether the last run has ended and its network is the current one
    measured: tuple[Measured, ...] = ()

    @property
    def is_loaded(self) -> bool:
        """Whether the loaded data is the data of the experiment."""
        return self.source == self.experiment.data

    @property
    def workers(self) -> int:
        """The expected number of workers of a run."""
        return self.experiment.master.workers or self.slots or self.experiment.spark.workers

    @property
    def parts_to_evaluate(self) -> dict[str, Any]:
        """The parts of the loaded data; parts not used for training come first."""
        return {name: self.data[name] for name in _BEST_TO_EVALUATE if name in self.data}

    @property
    def metrics(self) -> dict[str, float]:
        """The figures of the last result of the current network, as "figure (result)"."""
        for measured in reversed(self.measured):
            if measured.of is self.current:
                return {f"{n} ({measured.name})": value for n, value in measured.figures.items()}
        return {}

    @property
    def known_slots(self) -> int | None:
        """Concurrent Spark tasks of the session, else of the settings; None: unknown."""
        settings = self.experiment.spark
        if self.slots is not None or (settings.master or "").startswith("local"):
            return self.slots
        return settings.workers * settings.cores_per_worker

    @property
    def slots_problem(self) -> str:
        """The error if the master needs more workers than Spark has task slots; else empty."""
        experiment = self.experiment
        return slots_problem(experiment.master, self.known_slots, parallel=experiment.parallel)


def contexts(state: BenchState, *, seen: dict[str, Any] | None, problem: str | None) -> Context:
    """Return the values to pass to the parts; `problem`: why no run can start."""
    master = state.experiment.master
    kind = "sharing" if isinstance(master, SharedTrainingMaster) else "averaging"
    hand = state.current
    network = None if hand is None else hand.network
    workers = None if state.experiment.parallel else master.workers
    found: Context = {
        ("data", "set_spark"): {"spark": state.spark},
        ("master", "set_context"): {
            "rows": state.counts or None,
            "network": state.experiment.network,
            "slots": state.known_slots,
            "seed": state.experiment.seed,
        },
        ("partitions", "mode"): master.repartition,
        ("partitions", "strategy"): master.repartition_strategy,
        ("partitions", "set_context"): {
            "workers": state.workers,
            "batch_size": master.batch_size_per_worker,
            "kind": kind,
        },
        ("partitions", "data"): state.data.get("train"),
        ("train", "set_spark"): {"spark": state.spark},
        ("data", "set_loaded"): {"loaded": state.is_loaded},
        ("train", "set_ready"): {"reason": problem},
        ("train", "set_workers"): {"workers": workers},
        ("train", "set_weights"): {"source": _weights(hand, state)},
        ("train", "set_validation"): {"note": _validation(state.experiment)},
        ("evaluate", "set_context"): {"network": network, "data": state.parts_to_evaluate},
        ("models", "network"): network,
        ("models", "metrics"): state.metrics,
    }
    return found if seen is None else {**found, ("network", "set_data"): seen}


def _validation(experiment: Experiment) -> str:
    if experiment.validate and experiment.validation is None:
        part = experiment.validate_on
        return f"No validation: the split in the step Data has no {part} part."
    return experiment.note


def _weights(hand: Trained | None, state: BenchState) -> str | None:
    if hand is None:
        return None
    differs = hand.spec is not None and hand.spec != state.experiment.network
    return f"{hand.origin}{' (layers differ from the step Network)' if differs else ''}"
