"""Synchronous training by averaging the workers' parameters every few minibatches."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol, Self, runtime_checkable

from sparkwright.errors import ConfigurationError

from ._mesh_config import MeshConfig
from ._options import check_choice, check_count, check_flag, check_text
from ._plan import TrainingPlan

Communication = Literal["ring", "spark"]
NonFinite = Literal["stop", "continue"]
Repartition = Literal["always", "never", "num_partitions_workers_differs"]
RepartitionStrategy = Literal["balanced", "approximate_balanced", "spark_default"]
TrainingApproach = Literal["direct", "export"]
Xla = Literal["auto", "on", "off", "measure"]

_STORAGE_LEVELS = frozenset(
    f"{level}{copies}"
    for level in (
        "MEMORY_ONLY",
        "MEMORY_ONLY_SER",
        "MEMORY_AND_DISK",
        "MEMORY_AND_DISK_SER",
        "DISK_ONLY",
    )
    for copies in ("", "_2")
)
_CHOICES: dict[str, frozenset[Any]] = {
    "repartition": frozenset({"always", "never", "num_partitions_workers_differs"}),
    "repartition_strategy": frozenset({"balanced", "approximate_balanced", "spark_default"}),
    "storage_level": _STORAGE_LEVELS | {None},
    "storage_level_paths": _STORAGE_LEVELS | {None},
    "training_approach": frozenset({"direct", "export"}),
    "communication": frozenset({"ring", "spark"}),
    "non_finite": frozenset({"stop", "continue"}),
    "xla": frozenset({"auto", "on", "off", "measure"}),
}


@runtime_checkable
class TrainingHook(Protocol):
    """Called on the worker around each minibatch; with hooks, minibatches train one by one."""

    def pre_update(self, minibatch: Any, model: Any) -> None:
        """Called with the DataSet about to be trained and the worker's keras.Model."""
        ...

    def post_update(self, minibatch: Any, model: Any) -> None:
        """Called after the update."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterAveragingTrainingMaster:
    """Each worker trains a replica on its own data; every few minibatches they are averaged.

    With x_w a worker's parameters and n_w the minibatches it did since the last averaging,

        x  <-  sum_w n_w x_w / sum_w n_w

    and the same for other floating-point state (BatchNormalization statistics) and, with
    `save_updater`, for the optimizer's.

    Attributes:
        workers: number of workers; default None: as many as Spark has task slots.
        batch_size_per_worker: examples of a minibatch on one worker (default 16).
        averaging_frequency: minibatches of each worker between averagings (default 5). 1 spends
            most on communication, 5 to 10 is safe, 200 lets the replicas diverge.
        aggregation_depth: depth of Spark's treeAggregate with `communication="spark"` (default 2).
        prefetch_batches: minibatches gathered ahead, while others are trained (default 2; 0: off).
        save_updater: average the optimizer's state too (default True). If False, every averaging
            starts it afresh; the iteration count, and so a learning rate schedule, goes on.
        repartition: when to redistribute the data (default "always").
        repartition_strategy: how (default "balanced": sizes differ by at most one example).
        storage_level: how Spark keeps the data while a run reads it (default "MEMORY_ONLY"; None:
            not at all). PySpark's data is always serialized, "_SER" changes nothing.
        storage_level_paths: the same for paths of exported minibatches.
        training_approach: "direct" (default): workers stream their partition once and keep it in a
            local memory-mapped file; "export": minibatches are written to `export_directory` first.
        export_directory: URL for exported minibatches; default None: a temporary directory, which
            serves only when all of Spark runs on this machine.
        seed: seeds shuffles and repartitioning; default None: drawn anew for each run.
        shuffle: visit the examples in a new random order each epoch (default True).
        communication: "ring" (default): the workers average among themselves; "spark": a Spark job
            per averaging, for clusters where executors may not open ports. Same results.
        non_finite: what a NaN or infinite loss does: "stop" (default; the last good average is
            kept) or "continue".
        xla: compile the training step with XLA: "auto" (default: off on a CPU, measured on a GPU),
            "on", "off", "measure".
        collect_training_stats: record how long each phase took (default False), see `run.stats`.
        hooks: `TrainingHook`s, called on the workers; not part of JSON or equality of settings.
        mesh: addresses, ports and time-outs.

    Example:
        >>> master = ParameterAveragingTrainingMaster(batch_size_per_worker=32)
        >>> ParameterAveragingTrainingMaster.from_json(master.to_json()) == master
        True

    References:
        Deeplearning4j's class of the same name; K. Chen and Q. Huo, "Scalable training of deep
        learning machines by incremental block training with intra-block parallel optimization and
        blockwise model-update filtering", ICASSP 2016.
    """

    workers: int | None = None
    batch_size_per_worker: int = 16
    averaging_frequency: int = 5
    aggregation_depth: int = 2
    prefetch_batches: int = 2
    save_updater: bool = True
    repartition: Repartition = "always"
    repartition_strategy: RepartitionStrategy = "balanced"
    storage_level: str | None = "MEMORY_ONLY"
    storage_level_paths: str | None = "MEMORY_ONLY"
    training_approach: TrainingApproach = "direct"
    export_directory: str | None = None
    seed: int | None = None
    shuffle: bool = True
    communication: Communication = "ring"
    non_finite: NonFinite = "stop"
    xla: Xla = "auto"
    collect_training_stats: bool = False
    hooks: tuple[TrainingHook, ...] = field(default=(), compare=False)
    mesh: MeshConfig = field(default_factory=MeshConfig)

    def __post_init__(self) -> None:
        """Check every option by itself; what depends on the data is checked with the plan."""
        check_count("workers", self.workers, optional=True)
        for name in ("batch_size_per_worker", "averaging_frequency", "aggregation_depth"):
            check_count(name, getattr(self, name))
        check_count("prefetch_batches", self.prefetch_batches, minimum=0)
        check_count("seed", self.seed, minimum=0, optional=True)
        for name in ("save_updater", "shuffle", "collect_training_stats"):
            check_flag(name, getattr(self, name))
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        if self.export_directory is not None and self.training_approach != "export":
            raise ConfigurationError(
                '`export_directory` is used only with `training_approach="export"`. Received: '
                f"export_directory={self.export_directory!r}, training_approach="
                f"{self.training_approach!r}."
            )
        check_text("export_directory", self.export_directory)
        if not isinstance(self.mesh, MeshConfig):
            raise ConfigurationError(f"`mesh` must be a MeshConfig. Received: mesh={self.mesh!r}.")
        if not isinstance(self.hooks, Iterable):
            raise ConfigurationError(
                f"`hooks` must be several TrainingHooks. Received: hooks={self.hooks!r}."
            )
        object.__setattr__(self, "hooks", tuple(self.hooks))
        for hook in self.hooks:
            if not isinstance(hook, TrainingHook):
                raise ConfigurationError(
                    f"each of `hooks` must have `pre_update` and `post_update`. Received: {hook!r}."
                )

    def plan(self, rows: Sequence[int], *, epochs: int = 1, vector_bytes: int = 0) -> TrainingPlan:
        """What a run over workers holding `rows` examples each will do.

        Args:
            rows: examples of each worker.
            epochs: passes over the data; default 1.
            vector_bytes: bytes that a worker contributes to an averaging; default 0 (unknown).
        """
        return TrainingPlan(
            rows=tuple(rows),
            batch_size=self.batch_size_per_worker,
            averaging_frequency=self.averaging_frequency,
            epochs=epochs,
            vector_bytes=vector_bytes,
        )

    def with_hooks(self, *hooks: TrainingHook) -> Self:
        """A copy with `hooks` added."""
        return replace(self, hooks=(*self.hooks, *hooks))

    def without_hooks(self, *hooks: TrainingHook) -> Self:
        """A copy with `hooks` removed."""
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook not in hooks))

    def to_dict(self) -> dict[str, Any]:
        """JSON-able settings, without hooks."""
        settings = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "hooks"}
        return {"name": type(self).__name__, **settings, "mesh": self.mesh.to_dict()}

    @classmethod
    def from_dict(cls, settings: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; options left out take their defaults.

        Raises:
            ConfigurationError: if an option is unknown or has a value that it cannot have.
        """
        if not isinstance(settings, dict):
            raise ConfigurationError(f"settings must be a dict. Received: {settings!r}.")
        given = {key: value for key, value in settings.items() if key != "name"}
        name = settings.get("name", cls.__name__)
        if name != cls.__name__:
            raise ConfigurationError(
                f"`name` must be {cls.__name__!r} here. Received: name={name!r}."
            )
        _refuse_unknown(cls, given)
        mesh = given.get("mesh")
        if isinstance(mesh, dict):
            _refuse_unknown(MeshConfig, mesh)
            given["mesh"] = MeshConfig(**mesh)
        return cls(**given)

    def to_json(self) -> str:
        """Indented JSON of `to_dict`."""
        return json.dumps(self.to_dict(), indent=2)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`."""
        return cls.from_dict(json.loads(text))

    def to_yaml(self) -> str:
        """YAML of `to_dict`."""
        import yaml

        return yaml.safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def from_yaml(cls, text: str) -> Self:
        """The inverse of `to_yaml`."""
        import yaml

        return cls.from_dict(yaml.safe_load(text))


def _refuse_unknown(cls: type[Any], given: dict[str, Any]) -> None:
    known = {f.name for f in fields(cls)}
    unknown = sorted(set(given) - known)
    if unknown:
        raise ConfigurationError(
            f"unknown options {unknown} for {cls.__name__}. Known are {sorted(known)}."
        )
