"""The base class of training masters, and their hooks."""

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
    """Worker hook around each minibatch; with hooks, minibatches are trained one at a time."""

    def pre_update(self, minibatch: Any, model: Any) -> None:
        """Called before the update, with the DataSet and the worker's keras.Model."""
        ...

    def post_update(self, minibatch: Any, model: Any) -> None:
        """Called after the update, with the same arguments."""
        ...


@configuration
class TrainingMaster(Configuration):
    """Base class of training masters, with the common options."""

    _tagged: ClassVar[bool] = True

    workers: int | None = option(
        default=None,
        minimum=1,
        none_text="all task slots",
        help="Workers in all. Each takes one task slot, and 650 MiB or more for TensorFlow. With "
        "more workers than slots a run does not start. `workers=(2, 8)` stands for `workers=2, "
        "max_workers=8`.",
    )
    max_workers: int | None = option(
        default=None,
        minimum=1,
        none_text="no further ones",
        group=SPEED,
        label="Workers at most",
        help="Further workers join a run whenever task slots are free, up to this many in all. "
        "They train part of the others' data, and may leave at any time. Results then depend on "
        "when they join.",
    )
    batch_size_per_worker: int = option(
        default=16,
        minimum=1,
        label="Batch size per worker",
        unit="examples",
        help="Minibatch size on each worker. 32 to 128 keep a worker busier than 16; n workers "
        "together see n times as many examples at once.",
    )
    prefetch_batches: int = option(
        default=2,
        minimum=0,
        unit="minibatches",
        group=DATA,
        label="Gathered ahead",
        help="Minibatches gathered while others are trained. 2 is sensible; 0 switches it off. "
        "Much more takes memory and seldom helps.",
    )
    repartition: Repartition = option(
        default="always",
        group=DATA,
        label="Redistribute the data",
        help='When to redistribute the data. "always" gives each worker its fair share. "never" '
        "saves the shuffle and suits data that lies evenly already; a worker with little data "
        "waits for the others.",
    )
    repartition_strategy: RepartitionStrategy = option(
        default="balanced",
        group=DATA,
        help='How to redistribute it. "balanced" makes shares that differ by one example at most, '
        'but counts first. "spark_default" assigns at random: with little data, shares become '
        "uneven.",
    )
    storage_level: str | None = option(
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        none_text="not kept",
        group=DATA,
        help="How Spark keeps the data while a run reads it. Take MEMORY_AND_DISK if the data is "
        "larger than the executors' memory and costly to compute again. PySpark's data is always "
        'serialized: "_SER" changes nothing.',
    )
    storage_level_paths: str | None = option(
        default="MEMORY_ONLY",
        choices=STORAGE_LEVELS,
        none_text="not kept",
        group=DATA,
        label="Storage level of paths",
        help="The same for paths of exported minibatches. They are small; leave it as it is.",
    )
    training_approach: TrainingApproach = option(
        default="direct",
        group=DATA,
        help='"direct": workers stream their share once and keep it in a local memory-mapped file. '
        '"export": minibatches are written to files first, which pays if several runs read the '
        "same data.",
    )
    export_directory: str | None = option(
        default=None,
        none_text="a temporary folder of this machine",
        group=DATA,
        label="Folder for exported minibatches",
        help='A URL, only with "export". On a cluster it must be a place that all machines reach, '
        "such as hdfs:// or s3://.",
    )
    seed: int | None = option(
        default=None,
        minimum=0,
        maximum=MAX_SEED,
        none_text="random for each run",
        help="Seeds shuffles and repartitioning. Give a number if runs are to be compared.",
    )
    shuffle: bool = option(
        default=True,
        group=DATA,
        label="Shuffle in each epoch",
        help="Visit the examples in a new random order each epoch. Leave it on unless the order "
        "matters: sorted data trains badly.",
    )
    steps_per_epoch: int | None = option(
        default=None,
        minimum=1,
        none_text="one pass over the data",
        unit="minibatches",
        group=DATA,
        label="Minibatches of an epoch",
        help="Minibatches of an epoch, of all workers together. The next epoch goes on in the data "
        "where this one ended. For much data, so that validation and checkpoints come sooner.",
    )
    non_finite: NonFinite = option(
        default="stop",
        group=DIAGNOSTICS,
        label="When a loss is NaN or infinite",
        help='What a NaN or infinite loss or parameter does. "stop" keeps the last good state; '
        '"continue" leaves such a part out and goes on, which seldom leads anywhere.',
    )
    xla: Xla = option(
        default="auto",
        group=SPEED,
        label="XLA compiler",
        help='Compile the training step with XLA. "auto" is off on a CPU and measures it on a GPU; '
        '"measure" measures it anywhere. JAX always uses it.',
    )
    collect_training_stats: bool = option(
        default=False,
        group=DIAGNOSTICS,
        label="Time each phase",
        help="Record how long each phase takes, see `run.timeline`. It costs little; switch it on "
        "if a run is slow.",
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
        help="How driver and workers reach one another; on one machine nothing has to be set.",
    )
    checkpoint: Checkpointing | None = option(
        default=None,
        label="Checkpoints",
        group=CHECKPOINTS,
        none_text="no checkpoints",
        help="Where and how often to write checkpoints to go on from after a crash. Worth it for "
        "runs of more than some minutes.",
    )
    time_source: TimeSource | None = option(
        default=None,
        kinds={"system": SystemClock, "ntp": NtpClock},
        label="Clock of the timeline",
        group=DIAGNOSTICS,
        none_text="measured against the driver's clock",
        help="Clock that aligns the workers in `run.timeline`: `SystemClock()`, `NtpClock()` or "
        "None: differences measured over the run's own connections, the best choice in most cases. "
        "Used with `collect_training_stats`.",
    )

    def __post_init__(self) -> None:
        """Check each option, then their combination."""
        given: Any = self.workers
        if isinstance(given, tuple | list) and len(given) == 2 and self.max_workers is None:  # pyright: ignore[reportUnknownArgumentType]
            for name, value in zip(("workers", "max_workers"), given, strict=True):  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
                object.__setattr__(self, name, value)
        Configuration.__post_init__(self)  # `slots=True` replaces the class

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
                f"`hooks` must be several TrainingHooks. Received: hooks={self.hooks!r}."
            )
        object.__setattr__(self, "hooks", tuple(self.hooks))
        for hook in self.hooks:
            if not isinstance(hook, TrainingHook):
                raise ConfigurationError(
                    f"each of `hooks` must have `pre_update` and `post_update`. Received: {hook!r}."
                )

    def workers_at_most(self, required: int) -> int:
        """Return the maximum number of workers if `required` workers hold the data."""
        return max(required, self.max_workers or 0)

    @property
    def exchange(self) -> Exchange:
        """The data that workers exchange: contents, frequency, precision and route."""
        raise NotImplementedError

    def plan(self, rows: Sequence[int], *, epochs: int = 1, vector_bytes: int = 0) -> TrainingPlan:
        """Return the plan of a run for workers with `rows` examples each.

        Args:
            rows: examples of each worker.
            epochs: passes over the data; default 1.
            vector_bytes: bytes that a worker contributes to an averaging or can change in an
                update; default 0 (unknown).
        """
        exchange, size = self.exchange, self.batch_size_per_worker
        if exchange.kind == "averaging":
            frequency, message_bytes = exchange.every or 1, 0
            vector_bytes = round(exchange.density * vector_bytes)
        else:  # workers average at the end of an epoch
            frequency = max([1, *epoch_minibatches(rows, size, self.steps_per_epoch)])
            message_bytes = round(exchange.density * vector_bytes)
        return TrainingPlan(
            rows=tuple(rows),
            batch_size=size,
            averaging_frequency=frequency,
            epochs=epochs,
            vector_bytes=vector_bytes,
            kind=exchange.kind,
            bytes_per_minibatch=message_bytes,
            steps_per_epoch=self.steps_per_epoch,
        )

    def with_hooks(self, *hooks: TrainingHook) -> Self:
        """Return a copy with `hooks` added."""
        return replace(self, hooks=(*self.hooks, *hooks))

    def without_hooks(self, *hooks: TrainingHook) -> Self:
        """Return a copy with `hooks` removed."""
        return replace(self, hooks=tuple(hook for hook in self.hooks if hook not in hooks))
