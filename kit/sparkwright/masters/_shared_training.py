"""Asynchronous training by sharing encoded updates after every minibatch."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sparkwright.errors import ConfigurationError
from sparkwright.partitions import (
    DefaultRepartitioner,
    Repartitioner,
    piece_size,
    repartitioner_from_dict,
)
from sparkwright.updates import (
    AdaptiveThreshold,
    ResidualClipping,
    TargetSparsity,
    ThresholdAlgorithm,
    threshold_from_dict,
)

from ._options import (
    check_choice,
    check_count,
    check_flag,
    check_instance,
    check_protocol,
    check_seconds,
)
from ._plan import TrainingPlan, minibatch_count
from ._training_master import TrainingMaster

Combine = Literal["sum", "mean"]

# A bitmap holds two bits for each float32.
_DENSEST = 1 / 16
_MOST_AUTOMATIC_WORKERS = 6
_CORES_PER_AUTOMATIC_WORKER = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class SharedTrainingMaster(TrainingMaster):
    """Each worker trains a replica and sends the others what changed most, after every minibatch.

    With x the parameters that all workers agree on, y_w the worker's own, which run ahead of x by
    what it has not sent yet, and t the threshold,

        r_w = x - y_w
        m_w = t sign(r_w) where |r_w| >= t, else 0
        x  <-  x - c m_w    on every worker, as soon as m_w arrives

    with c = 1, or 1 / n for the n workers with `combine="mean"`. What is below the threshold is
    not lost: it stays in r_w and is sent when enough has gathered. Nobody waits for anybody, so
    results depend on timing and differ a little from run to run, even with a seed.

    Attributes:
        workers: number of workers in all, each in a task slot of its own; default None: see
            `workers_per_node`. Give one of the two, or neither.
        workers_per_node: workers on each Spark executor, so `workers_per_node` times executors in
            all; each executor must offer so many task slots. Default None: automatic, one for
            each GPU of an executor; without GPUs a quarter of its cores, at least 1 and at most
            6; never more in all than there are task slots. Where Spark runs as "local[n]", within
            the driver, automatic means all n slots. 1 is good on CPUs, more pays on very many
            cores.
        batch_size_per_worker: examples of a minibatch on one worker (default 16).
        threshold: how large a change must be to be sent, and how that adapts (default
            `AdaptiveThreshold()`, which keeps the messages small but not empty). A threshold too
            large sends too little, and training slows down; one too small fills the network.
        residual_clipping: bounds what waits to be sent, so that no old change is sent long after
            it was of use (default `ResidualClipping()`: to 5 thresholds, every 5 minibatches;
            None: never).
        minibatches_per_message: minibatches that a worker trains before it sends what it has
            learnt; default None: one if it takes 40 ms or more, else as many as are over in that
            time, at most 5 (and no more than `max_staleness`). 1 is Deeplearning4j's way; a message
            costs a millisecond or two whatever it holds.
        per_variable_thresholds: adapt a threshold for each of the model's variables instead of
            one for all (default False). Worth it when layers' updates differ much in size.
        combine: "sum" (default): every update counts in full, as in the papers; "mean": each
            counts 1 / n, which behaves like a smaller learning rate and is safer with many workers.
        max_staleness: minibatches that a worker may be ahead of the slowest (default None:
            unbounded; 0: all go in step). 10 or so keeps a slow machine's updates of use.
        prefetch_batches: minibatches gathered ahead, while others are trained (default 2; 0: off).
        repartition: when to redistribute the data (default "always").
        repartition_strategy: how (default "balanced": sizes differ by at most one example).
        repartitioner: into how many pieces an epoch's work is cut (default
            `DefaultRepartitioner()`: of a minibatch each, at most 5000); any object with
            `partitions(total, batch_size)`. Workers that are done take pieces of others.
        piece_minibatches: minibatches in a piece; default None: as `repartitioner` says, with at
            least 16 pieces for each worker if there are minibatches enough; a worker that is quick
            gets several at a time, a tenth of a second's work.
        storage_level: how Spark keeps the data while a run reads it (default "MEMORY_ONLY"; None:
            not at all). PySpark's data is always serialized, "_SER" changes nothing.
        storage_level_paths: the same for paths of exported minibatches (default
            "MEMORY_ONLY").
        training_approach: "direct" (default): workers stream their partition once and keep it in a
            local memory-mapped file; "export": minibatches are written to `export_directory` first.
        export_directory: URL for exported minibatches; default None: a temporary directory, which
            serves only when all of Spark runs on this machine.
        seed: seeds shuffles and repartitioning; default None: drawn anew for each run.
        shuffle: visit the examples in a new random order each epoch (default True).
        non_finite: what a NaN or infinite loss or parameter does: "stop" (default; the last good
            state is kept) or "continue" (such a worker returns to the shared state).
        xla: compile the training step with XLA: "auto" (default: off on a CPU, measured on a GPU),
            "on", "off", "measure".
        periodic_gc: run Python's garbage collector on workers at fixed intervals only, instead of
            whenever it sees fit (default True), so that it does not hold up minibatches.
        periodic_gc_interval_s: seconds between collections (default 5); used with `periodic_gc`.
        collect_training_stats: record how long each phase took (default False), see `run.timeline`.
        encoding_debug_mode: log what is left to send, its size and percentiles, before each
            message (default False). It costs time; use it to choose a threshold.
        hooks: `TrainingHook`s, called on the workers; not part of JSON or equality of settings.
        mesh: addresses, ports and time-outs, and the way that updates travel (default
            `MeshConfig()`); set `mode="mesh"` in it above about 32 workers.
        checkpoint: where and how often to write checkpoints, counted in minibatches of a worker;
            default None: no checkpoints.
        time_source: by which clock `run.timeline` puts workers beside one another: `SystemClock()`
            or `NtpClock()`; default None: measured against the driver's over the run's own
            connections. Used with `collect_training_stats`.

    Example:
        >>> master = SharedTrainingMaster(batch_size_per_worker=32, max_staleness=10)
        >>> SharedTrainingMaster.from_json(master.to_json()) == master
        True

    References:
        N. Strom, "Scalable distributed DNN training using commodity GPU cloud computing",
        Interspeech 2015; Q. Ho et al., "More effective distributed ML via a stale synchronous
        parallel parameter server", NIPS 2013 (bounded staleness); Deeplearning4j's class of the
        same name.
    """

    workers_per_node: int | None = None
    threshold: ThresholdAlgorithm = field(default_factory=AdaptiveThreshold)
    residual_clipping: ResidualClipping | None = field(default_factory=ResidualClipping)
    minibatches_per_message: int | None = None
    per_variable_thresholds: bool = False
    combine: Combine = "sum"
    max_staleness: int | None = None
    repartitioner: Repartitioner = field(default_factory=DefaultRepartitioner)
    piece_minibatches: int | None = None
    periodic_gc: bool = True
    periodic_gc_interval_s: float = 5.0
    encoding_debug_mode: bool = False

    def __post_init__(self) -> None:
        """Check every option by itself; what depends on the data is checked with the plan."""
        # No `super()`: it does not work in a class that `slots=True` has made anew.
        TrainingMaster.__post_init__(self)
        check_count("workers_per_node", self.workers_per_node, optional=True)
        if self.workers is not None and self.workers_per_node is not None:
            raise ConfigurationError(
                "`workers_per_node` and `workers` both say how many workers there are. Received: "
                f"workers_per_node={self.workers_per_node}, workers={self.workers}. Give one."
            )
        check_protocol(
            "threshold", self.threshold, ThresholdAlgorithm, ("init", "update", "to_dict")
        )
        check_instance("residual_clipping", self.residual_clipping, ResidualClipping, optional=True)
        check_protocol("repartitioner", self.repartitioner, Repartitioner, ("partitions",))
        for name in ("per_variable_thresholds", "periodic_gc", "encoding_debug_mode"):
            check_flag(name, getattr(self, name))
        check_choice("combine", self.combine, ("sum", "mean"))
        check_count("max_staleness", self.max_staleness, minimum=0, optional=True)
        check_count("piece_minibatches", self.piece_minibatches, optional=True)
        check_count("minibatches_per_message", self.minibatches_per_message, optional=True)
        check_seconds("periodic_gc_interval_s", self.periodic_gc_interval_s)

    def worker_count(
        self,
        *,
        slots: int | None,
        executors: int | None,
        cores_per_executor: int = 1,
        gpus_per_executor: int = 0,
    ) -> int:
        """How many workers a run has where Spark offers so much.

        Args:
            slots: tasks that can run at once; None if that can change.
            executors: Spark executors; None where tasks run within the driver ("local[n]").
            cores_per_executor: CPU cores of each; default 1.
            gpus_per_executor: GPUs of each; default 0.

        Returns:
            At least 1; more than `slots` only if the options ask for it.

        Example:
            >>> SharedTrainingMaster().worker_count(slots=64, executors=4, cores_per_executor=16)
            16
        """
        if self.workers is not None:
            return self.workers
        if self.workers_per_node is not None:
            return self.workers_per_node * (executors or 1)
        if executors is None:
            return slots or 1
        found = executors * automatic_workers(cores=cores_per_executor, gpus=gpus_per_executor)
        return max(1, found if slots is None else min(found, slots))

    def minibatches_in_piece(self, rows: Sequence[int]) -> int:
        """Minibatches in each piece of work that a worker is given, at least 1.

        Args:
            rows: examples of each worker.
        """
        if self.piece_minibatches is not None:
            return self.piece_minibatches
        return piece_size(rows, self.batch_size_per_worker, self.repartitioner)

    def plan(self, rows: Sequence[int], *, epochs: int = 1, vector_bytes: int = 0) -> TrainingPlan:
        """What a run over workers holding `rows` examples each will do.

        Args:
            rows: examples of each worker.
            epochs: passes over the data; default 1.
            vector_bytes: bytes of the parameters, as float32; default 0 (unknown).
        """
        most = max((minibatch_count(n, self.batch_size_per_worker) for n in rows), default=0)
        return TrainingPlan(
            rows=tuple(rows),
            batch_size=self.batch_size_per_worker,
            averaging_frequency=max(1, most),
            epochs=epochs,
            vector_bytes=vector_bytes,
            kind="sharing",
            bytes_per_minibatch=round(expected_sparsity(self.threshold) * vector_bytes),
        )

    @classmethod
    def _readers(cls) -> Mapping[str, Callable[[dict[str, Any]], Any]]:
        return {
            **TrainingMaster._readers(),
            "threshold": threshold_from_dict,
            "residual_clipping": ResidualClipping.from_dict,
            "repartitioner": repartitioner_from_dict,
        }


def automatic_workers(*, cores: int, gpus: int = 0) -> int:
    """Workers for a machine: one for each GPU, else a quarter of the cores, from 1 to 6.

    The rule is Deeplearning4j's, except that one GPU counts too.

    Example:
        >>> [automatic_workers(cores=cores) for cores in (1, 8, 96)]
        [1, 2, 6]
    """
    if gpus > 0:
        return gpus
    return min(_MOST_AUTOMATIC_WORKERS, max(1, cores // _CORES_PER_AUTOMATIC_WORKER))


def expected_sparsity(threshold: ThresholdAlgorithm) -> float:
    """Size of a message over that of the vector which to expect at most, once t has adapted.

    A message is never larger than a bitmap, a sixteenth of the vector (plus a header).
    """
    if isinstance(threshold, AdaptiveThreshold):
        return min(_DENSEST, threshold.max_sparsity)
    if isinstance(threshold, TargetSparsity):
        return min(_DENSEST, threshold.target)
    return _DENSEST
