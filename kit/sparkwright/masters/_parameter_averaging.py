"""Synchronous training by averaging the workers' parameters every few minibatches."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ._options import check_choice, check_count, check_flag
from ._plan import TrainingPlan
from ._training_master import TrainingMaster

Communication = Literal["ring", "spark"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterAveragingTrainingMaster(TrainingMaster):
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
        share_work: let fast workers take minibatches off slow ones (default False): rounds are cut
            to each worker's measured speed, and what is left of an epoch is trained by whoever is
            free. The result then depends on timing. Worth it on machines of unequal speed.
        communication: "ring" (default): the workers average among themselves; "spark": a Spark job
            per averaging, for clusters where executors may not open ports. Same results.
        non_finite: what a NaN or infinite loss or parameter does: "stop" (default; the last good
            average is kept) or "continue" (a part with such parameters is not averaged).
        xla: compile the training step with XLA: "auto" (default: off on a CPU, measured on a GPU),
            "on", "off", "measure".
        collect_training_stats: record how long each phase took (default False), see `run.timeline`.
        hooks: `TrainingHook`s, called on the workers; not part of JSON or equality of settings.
        mesh: addresses, ports and time-outs.
        checkpoint: where and how often to write checkpoints, counted in averagings; default None:
            no checkpoints.
        time_source: by which clock `run.timeline` puts workers beside one another: `SystemClock()`
            or `NtpClock()`; default None: measured against the driver's over the run's own
            connections. Used with `collect_training_stats`.

    Example:
        >>> master = ParameterAveragingTrainingMaster(batch_size_per_worker=32)
        >>> ParameterAveragingTrainingMaster.from_json(master.to_json()) == master
        True

    References:
        Deeplearning4j's class of the same name; K. Chen and Q. Huo, "Scalable training of deep
        learning machines by incremental block training with intra-block parallel optimization and
        blockwise model-update filtering", ICASSP 2016.
    """

    averaging_frequency: int = 5
    aggregation_depth: int = 2
    save_updater: bool = True
    communication: Communication = "ring"
    share_work: bool = False

    def __post_init__(self) -> None:
        """Check every option by itself; what depends on the data is checked with the plan."""
        # No `super()`: it does not work in a class that `slots=True` has made anew.
        TrainingMaster.__post_init__(self)
        check_count("averaging_frequency", self.averaging_frequency)
        check_count("aggregation_depth", self.aggregation_depth)
        check_flag("save_updater", self.save_updater)
        check_flag("share_work", self.share_work)
        check_choice("communication", self.communication, ("ring", "spark"))

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
