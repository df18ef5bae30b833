"""Base class of training masters."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.mesh.time_sources import NtpClock, SystemClock, TimeSource
from sparkwright.options import MAX_SEED

from .checkpointing import Checkpointing
from .mesh_config import MeshConfig
from .plan import Exchange, TrainingPlan, epoch_minibatches

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

# Groups of options in forms; the most common options have no group.
DATA = "Data and partitions"
MESSAGES = "Messages between workers"
SPEED = "Speed"
DIAGNOSTICS = "Failures and diagnostics"
CHECKPOINTS = "Checkpoints"
ADDRESSES = "Addresses and time-outs"


@runtime_checkable
class TrainingHook(Protocol):
    """Methods called on the worker around each minibatch, which is then trained alone."""

    def pre_update(self, minibatch: Any, model: Any) -> None:
        """Called before the update with the DataSet and the worker's keras.Model."""
        ...

    def post_update(self, minibatch: Any, model: Any) -> None:
        """Called after the update."""
        ...


@configuration
class TrainingMaster(Configuration):
    """Options of every training master."""

    _tagged: ClassVar[bool] = True

    workers: int | None = option(
        default=None,
        minimum=1,
        none_text="all task slots",
        help="Total number of workers. Each takes one task slot and at least 650 MiB for "
        "TensorFlow. With more workers than slots a run does not start.",
    )
    max_workers: int | None = option(
        default=None,
        minimum=1,
        none_text="no additional workers",
        group=SPEED,
        label="Maximum workers",
        help="Additional workers join a run when task slots become free, up to this total. They "
        "take over part of the data and may leave at any time. Results then depend on when "
        "they join.",
    )
    batch_size_per_worker: int = option(
        default=16,
        minimum=1,
        label="Batch size per worker",
        unit="examples",
        help="Minibatch size of each worker. 32 to 128 use a worker better than 16; n workers "
        "together train n times as many examples per update.",
    )
    prefetch_batches: int = option(
        default=2,
        minimum=0,
        unit="minibatches",
        group=DATA,
        label="Gathered ahead",
        help="Minibatches prepared in advance. 2 is sensible; 0 disables it. More takes memory "
        "and seldom helps.",
    )
    repartition: Repartition = option(
        default="always",
        group=DATA,
        label="Redistribute the data",
        help='When to redistribute the data. "always" balances the workers. "never" saves the '
        "shuffle and suits evenly distributed data; a worker with little data waits for the "
        "others.",
    )
    repartition_strategy: RepartitionStrategy = option(
        default="balanced",
        group=DATA,
        help='How to redistribute it. "balanced" makes partitions that differ by at most one '
        'example, but counts first. "spark_default" assigns rows at random: with little '
        "data, partitions become uneven.",
    )
    storage_level: str | None = option(
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        none_text="not kept",
        group=DATA,
        help="Storage level of the data during a run. Use MEMORY_AND_DISK if the data exceeds "
        "the executors' memory and is costly to compute again. PySpark always serializes "
        'data: "_SER" changes nothing.',
    )
    storage_level_paths: str | None = option(
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        none_text="not kept",
        group=DATA,
        label="Storage level of paths",
        help="Storage level of the paths of exported minibatches. They are small; the default "
        "suits.",
    )
    training_approach: TrainingApproach = option(
        default="direct",
        group=DATA,
        help='"direct": each worker streams its partition once and keeps it in a local '
        'memory-mapped file. "export": minibatches are first written to files, which pays '
        "off if several runs read the same data.",
    )
    export_directory: str | None = option(
        default=None,
        none_text="a local temporary folder",
        group=DATA,
        label="Folder for exported minibatches",
        help='A URL, only with "export". On a cluster all machines must reach it, such as '
        "hdfs:// or s3://.",
    )
    seed: int | None = option(
        default=None,
        minimum=0,
        maximum=MAX_SEED,
        none_text="random for each run",
        help="Seed of shuffles and repartitioning. Set it to compare runs.",
    )
    shuffle: bool = option(
        default=True,
        group=DATA,
        label="Shuffle in each epoch",
        help="Visit the examples in a new random order each epoch. Disable it only if the order "
        "matters: sorted data trains badly.",
    )
    steps_per_epoch: int | None = option(
        default=None,
        minimum=1,
        none_text="one pass over the data",
        unit="minibatches",
        group=DATA,
        label="Minibatches of an epoch",
        help="Minibatches per epoch, of all workers together. The next epoch continues in the "
        "data where this one ended. With much data, it makes validation and checkpoints "
        "more frequent.",
    )
    non_finite: NonFinite = option(
        default="stop",
        group=DIAGNOSTICS,
        label="When a loss is NaN or infinite",
        help='Reaction to a NaN or infinite loss or parameter. "stop" keeps the last finite '
        'state; "continue" leaves out the affected part, which seldom helps.',
    )
    xla: Xla = option(
        default="auto",
        group=SPEED,
        label="XLA compiler",
        help='Compile the training step with XLA. "auto" is off on CPUs and measures the gain on '
        'GPUs; "measure" measures it everywhere. JAX always uses it.',
    )
    collect_training_stats: bool = option(
        default=False,
        group=DIAGNOSTICS,
        label="Time each phase",
        help="Record the duration of each phase, see `run.timeline`. It costs little; use it to "
        "find out why a run is slow.",
    )
    hooks: tuple[TrainingHook, ...] = option(
        default=(),
        form=False,
        saved=False,
        help="`TrainingHook`s, called on the workers; not part of settings or equality.",
    )
    mesh: MeshConfig = option(
        default_factory=MeshConfig,
        label="Addresses and time-outs",
        group=ADDRESSES,
        help="Network settings of driver and workers; on one machine none are needed.",
    )
    checkpoint: Checkpointing | None = option(
        default=None,
        label="Checkpoints",
        group=CHECKPOINTS,
        none_text="no checkpoints",
        help="Folder and frequency of checkpoints, to resume after a crash. Useful for runs of "
        "more than a few minutes.",
    )
    time_source: TimeSource | None = option(
        default=None,
        kinds={"system": SystemClock, "ntp": NtpClock},
        label="Clock of the timeline",
        group=DIAGNOSTICS,
        none_text="measured against the driver's clock",
        help="Clock that aligns the workers in `run.timeline`: `SystemClock()`, `NtpClock()` or "
        "None: offsets measured over the run's own connections, usually the best choice. "
        "Used with `collect_training_stats`.",
    )

    def _check(self) -> None:
        if self.max_workers is not None and self.max_workers < (self.workers or 1):
            raise ConfigurationError(
                "`max_workers` counts all workers, so it must be at least `workers`. Received: "
                f"workers={self.workers}, max_workers={self.max_workers}."
            )
        if self.export_directory is not None and self.training_approach != "export":
            raise ConfigurationError(
                '`export_directory` is used only with `training_approach="export"`. Received: '
                f"export_directory={self.export_directory!r}, training_approach="
                f"{self.training_approach!r}."
            )
        if not isinstance(self.hooks, Iterable):
            raise ConfigurationError(
                f"`hooks` must be a sequence of TrainingHooks. Received: hooks={self.hooks!r}."
            )
        object.__setattr__(self, "hooks", tuple(self.hooks))
        for hook in self.hooks:
            if not isinstance(hook, TrainingHook):
                raise ConfigurationError(
                    f"each of `hooks` must have `pre_update` and `post_update`. Received: {hook!r}."
                )

    def workers_at_most(self, required: int) -> int:
        """Return the maximum number of workers; `required` of them have the data."""
        return max(required, self.max_workers or 0)

    @property
    def exchange(self) -> Exchange:
        """Return the exchanges between workers: content, interval, precision and topology."""
        raise NotImplementedError

    def plan(self, rows: Sequence[int], *, epochs: int = 1) -> TrainingPlan:
        """Return the plan of a run with `rows` examples per worker.

        Args:
            rows: examples of each worker.
            epochs: passes over the data; default 1.
        """
        exchange, size = self.exchange, self.batch_size_per_worker
        if exchange.kind == "averaging":
            frequency = exchange.every or 1
        else:  # workers average at the end of an epoch
            frequency = max([1, *epoch_minibatches(rows, size, self.steps_per_epoch)])
        return TrainingPlan(
            rows=tuple(rows),
            batch_size=size,
            averaging_frequency=frequency,
            epochs=epochs,
            kind=exchange.kind,
            steps_per_epoch=self.steps_per_epoch,
        )

    def with_hooks(self, *hooks: TrainingHook) -> Self:
        """Return a copy with `hooks` added."""
        return replace(self, hooks=(*self.hooks, *hooks))

    def without_hooks(self, *hooks: TrainingHook) -> Self:
        """Return a copy with `hooks` removed."""
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook not in hooks))
