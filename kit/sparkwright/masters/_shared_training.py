"""Asynchronous training: workers share encoded updates after every minibatch."""

from collections.abc import Sequence
from typing import Literal

from sparkwright.configuration import configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.partitions import (
    DefaultRepartitioner,
    NoRepartitioner,
    Repartitioner,
    piece_size,
)
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
    ThresholdAlgorithm,
    expected_sparsity,
)

from .plan import Exchange
from .training_master import DATA, DIAGNOSTICS, MESSAGES, SPEED, TrainingMaster

Combine = Literal["sum", "mean"]
SharingCommunication = Literal["mesh", "driver"]

THRESHOLD = "Encoding"

_MOST_AUTOMATIC_WORKERS = 6
_CORES_PER_AUTOMATIC_WORKER = 4


@configuration
class SharedTrainingMaster(TrainingMaster):
    """Each worker trains a replica and sends its largest changes after every minibatch.

    Let x be the shared parameters, y_w the parameters of worker w (ahead of x by its unsent
    changes), u_w the update that its optimizer subtracts in a minibatch, and t the threshold:

        y_w <-  y_w - c u_w
        r_w = x - y_w
        m_w = t sign(r_w) where |r_w| >= t, else 0
        x  <-  x - m_w    on every worker, as soon as m_w arrives

    with c = 1, or 1 / n for the n workers with `combine="mean"`. Values below the
    threshold stay in r_w and are sent once they exceed it. Workers do not wait for each other, so
    results depend on timing and differ a little from run to run, even with a seed.

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

    workers: int | None = option(
        default=None,
        minimum=1,
        none_text="set by `workers_per_node`",
        help="Total number of workers. Each takes one task slot and at least 650 MiB for "
        "TensorFlow. Set `workers`, `workers_per_node` or neither.",
    )
    workers_per_node: int | None = option(
        default=None,
        minimum=1,
        none_text="automatic",
        help="Workers per Spark executor, instead of `workers`; each executor needs as many task "
        "slots. Automatic: one per GPU of an executor; without GPUs a quarter of its cores, "
        'from 1 to 6; with "local[n]" all n slots. 1 is good on CPUs.',
    )
    threshold: ThresholdAlgorithm = option(
        default_factory=AdaptiveThreshold,
        kinds={"adaptive": AdaptiveThreshold, "target": TargetSparsity, "fixed": FixedThreshold},
        methods=("init", "update", "to_dict"),
        label="Threshold algorithm",
        group=THRESHOLD,
        help='Minimum size of a change to be sent. "adaptive" keeps messages small but not empty '
        'and is a good choice. "fixed" needs tuning: too large slows training, too small '
        "makes messages large.",
    )
    residual_clipping: ResidualClipping | None = option(
        default=None,
        none_text="never",
        label="Clip the residual",
        group=THRESHOLD,
        help="Bounds the residual so that outdated changes are not sent. Clipped values are "
        "lost, so a network learns more slowly.",
    )
    minibatches_per_message: int | None = option(
        default=None,
        minimum=1,
        none_text="enough that messages cost a fifth of training, at most 5 and `max_staleness`",
        unit="minibatches",
        group=MESSAGES,
        help="Minibatches that a worker trains per message. 1 is Deeplearning4j's choice. A "
        "message costs a millisecond or two, plus half a millisecond per megabyte of "
        "parameters, so short minibatches should share one.",
    )
    communication: SharingCommunication = option(
        default="mesh",
        group=MESSAGES,
        help='"mesh": workers connect to each other, as set by `MeshConfig(mode=…)`. "driver": '
        "all connections are forwarded through the driver's port, for clusters where "
        "executors may not open ports to each other.",
    )
    per_variable_thresholds: bool = option(
        default=False,
        group=MESSAGES,
        label="Threshold per variable",
        help="Adapt one threshold per variable of the model instead of one for all. Useful if "
        "updates of some layers are much larger than those of others.",
    )
    combine: Combine = option(
        default="sum",
        label="Updates count",
        help='"sum": add updates in full, as in the papers; n workers then act like an n times '
        'higher learning rate. "mean": scale each worker\'s step by 1/n; slower, and safer '
        "with many workers.",
    )
    max_staleness: int | None = option(
        default=None,
        minimum=0,
        none_text="no limit",
        unit="minibatches",
        label="Maximum staleness",
        help="Minibatches that a worker may be ahead of the slowest. About 10 keeps the updates "
        "of a slow machine useful. 0 synchronizes all workers, so that fast ones wait.",
    )
    repartitioner: Repartitioner = option(
        default_factory=DefaultRepartitioner,
        kinds={"default": DefaultRepartitioner, "none": NoRepartitioner},
        methods=("partitions",),
        label="Split an epoch",
        group=DATA,
        help='How to split the work of an epoch. "default": small pieces, so that workers of '
        'unequal speed finish together: idle workers take over remaining pieces. "none": as '
        "large as possible.",
    )
    piece_minibatches: int | None = option(
        default=None,
        minimum=1,
        unit="minibatches",
        none_text="set by `repartitioner`",
        group=DATA,
        label="Piece size",
        help="Minibatches per piece. By default each worker has at least 16 pieces; a fast "
        "worker receives several at a time, enough for a tenth of a second.",
    )
    periodic_gc: bool = option(
        default=True,
        group=SPEED,
        label="Periodic garbage collection",
        help="Run Python's garbage collector on workers only at fixed intervals, so that it does "
        "not delay minibatches.",
    )
    periodic_gc_interval_s: float = option(
        default=5.0,
        above=0,
        unit="s",
        group=SPEED,
        label="Garbage collection interval",
        help="Seconds between collections. Shorten it if the memory of workers grows in between.",
    )
    encoding_debug_mode: bool = option(
        default=False,
        group=DIAGNOSTICS,
        label="Log the residual",
        help="Log the size and percentiles of the residual before each message, which takes "
        "time. Use it to choose a threshold: if most of the residual is tens of thresholds "
        "large, the threshold is too low.",
    )

    def _check(self) -> None:
        TrainingMaster._check(self)  # `slots=True` replaces the class, which breaks `super()`
        if self.workers is not None and self.workers_per_node is not None:
            raise ConfigurationError(
                "`workers_per_node` and `workers` exclude each other. Received: "
                f"workers_per_node={self.workers_per_node}, workers={self.workers}. Set one."
            )

    def worker_count(
        self,
        *,
        slots: int | None,
        executors: int | None,
        cores_per_executor: int = 1,
        gpus_per_executor: int = 0,
    ) -> int:
        """Return the number of workers for the available Spark resources.

        Args:
            slots: number of concurrent tasks; None if it can change.
            executors: Spark executors; None if tasks run in the driver ("local[n]").
            cores_per_executor: CPU cores of each; default 1.
            gpus_per_executor: GPUs of each; default 0.

        Returns:
            At least 1; more than `slots` only if the options require it.

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
        """Return the minibatches per piece of work, at least 1.

        Args:
            rows: examples of each worker.
        """
        if self.piece_minibatches is not None:
            return self.piece_minibatches
        return piece_size(rows, self.batch_size_per_worker, self.repartitioner)

    @property
    def exchange(self) -> Exchange:
        """Return the exchanges: large residuals per message, all residuals at the end of epochs."""
        return Exchange(
            what=("residuals", "moments"),
            every=self.minibatches_per_message,
            precision="threshold",
            density=expected_sparsity(self.threshold),
            among=self.communication,
        )


def automatic_workers(*, cores: int, gpus: int = 0) -> int:
    """Return the workers of a machine: one per GPU, else a quarter of the cores, from 1 to 6.

    The rule is Deeplearning4j's, except that one GPU counts too.

    Example:
        >>> [automatic_workers(cores=cores) for cores in (1, 8, 96)]
        [1, 2, 6]
    """
    if gpus > 0:
        return gpus
    return min(_MOST_AUTOMATIC_WORKERS, max(1, cores // _CORES_PER_AUTOMATIC_WORKER))
