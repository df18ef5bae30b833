"""What all training masters have in common."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self, runtime_checkable

from sparkwright.errors import ConfigurationError

from ._checkpointing import Checkpointing
from ._mesh_config import MeshConfig
from ._options import MAX_SEED, check_choice, check_count, check_flag, check_instance, check_text
from ._plan import TrainingPlan
from ._serialisation import Serialisable
from ._time_source import NtpClock, SystemClock, TimeSource, time_source_from_dict

NonFinite = Literal["stop", "continue"]
Repartition = Literal["always", "never", "num_partitions_workers_differs"]
RepartitionStrategy = Literal["balanced", "approximate_balanced", "spark_default"]
TrainingApproach = Literal["direct", "export"]
Xla = Literal["auto", "on", "off", "measure"]

STORAGE_LEVELS = tuple(
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
    "storage_level": frozenset({*STORAGE_LEVELS, None}),
    "storage_level_paths": frozenset({*STORAGE_LEVELS, None}),
    "training_approach": frozenset({"direct", "export"}),
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
class TrainingMaster(Serialisable):
    """Options of every training master; each says in its own documentation what they mean."""

    workers: int | None = None
    batch_size_per_worker: int = 16
    prefetch_batches: int = 2
    repartition: Repartition = "always"
    repartition_strategy: RepartitionStrategy = "balanced"
    storage_level: str | None = "MEMORY_ONLY"
    storage_level_paths: str | None = "MEMORY_ONLY"
    training_approach: TrainingApproach = "direct"
    export_directory: str | None = None
    seed: int | None = None
    shuffle: bool = True
    non_finite: NonFinite = "stop"
    xla: Xla = "auto"
    collect_training_stats: bool = False
    hooks: tuple[TrainingHook, ...] = field(default=(), compare=False)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    checkpoint: Checkpointing | None = None
    time_source: TimeSource | None = None

    def __post_init__(self) -> None:
        """Check every option by itself; what depends on the data is checked with the plan."""
        check_count("workers", self.workers, optional=True)
        check_count("batch_size_per_worker", self.batch_size_per_worker)
        check_count("prefetch_batches", self.prefetch_batches, minimum=0)
        check_count("seed", self.seed, minimum=0, maximum=MAX_SEED, optional=True)
        for name in ("shuffle", "collect_training_stats"):
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
        check_instance("mesh", self.mesh, MeshConfig)
        check_instance("checkpoint", self.checkpoint, Checkpointing, optional=True)
        if not (self.time_source is None or isinstance(self.time_source, SystemClock | NtpClock)):
            raise ConfigurationError(
                "`time_source` must be a SystemClock, an NtpClock or None. Received: "
                f"time_source={self.time_source!r}."
            )
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
        """What a run over workers holding `rows` examples each will do."""
        raise NotImplementedError

    def with_hooks(self, *hooks: TrainingHook) -> Self:
        """A copy with `hooks` added."""
        return replace(self, hooks=(*self.hooks, *hooks))

    def without_hooks(self, *hooks: TrainingHook) -> Self:
        """A copy with `hooks` removed."""
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook not in hooks))

    @classmethod
    def _readers(cls) -> Mapping[str, Callable[[dict[str, Any]], Any]]:
        return {
            "mesh": MeshConfig.from_dict,
            "checkpoint": Checkpointing.from_dict,
            "time_source": time_source_from_dict,
        }
