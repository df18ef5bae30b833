"""Asynchronous training by sharing encoded updates after every minibatch."""

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

THRESHOLD = "What is sent"

_MOST_AUTOMATIC_WORKERS = 6
_CORES_PER_AUTOMATIC_WORKER = 4


@configuration
class SharedTrainingMaster(TrainingMaster):
    """Trains a replica on each worker and shares its largest changes after every minibatch.

    Let x be the parameters that all workers agree on, and y_w the parameters of worker w. y_w is
    ahead of x by the changes that the worker has not sent yet. With u_w the update that its
    optimizer subtracts in a minibatch, and t the threshold,

        y_w <-  y_w - c u_w
        r_w = x - y_w
        m_w = t sign(r_w) where |r_w| >= t, else 0
        x  <-  x - m_w    on every worker, as soon as m_w arrives

    with c = 1, or 1 / n for n workers with `combine="mean"`. Values below the threshold stay in r_w
    until they reach it. Workers do not wait for each other. So results depend on timing and differ
    slightly between runs, even with a seed.

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
        none_text="as `workers_per_node` says",
        help="Workers in all. Each takes one task slot, and 650 MiB or more for TensorFlow. Give "
        "`workers`, `workers_per_node` or neither.",
    )
    workers_per_node: int | None = option(
        default=None,
        minimum=1,
        none_text="automatic",
        help="Workers on each Spark executor, instead of `workers`; each executor must offer so "
        "many task slots. Automatic is one for each GPU of an executor; without GPUs a quarter of "
        'its cores, from 1 to 6; with "local[n]" all n slots. 1 is good on CPUs.',
    )
    threshold: ThresholdAlgorithm = option(
        default_factory=AdaptiveThreshold,
        kinds={"adaptive": AdaptiveThreshold, "target": TargetSparsity, "fixed": FixedThreshold},
        methods=("init", "update", "to_dict"),
        label="How the threshold adapts",
        group=THRESHOLD,
        help='How large a change must be to be sent. "adaptive" keeps messages small but not empty '
        'and is a good choice; "fixed" needs to be tuned: too large sends too little, and training '
        "slows down; too small fills the network.",
    )
    residual_clipping: ResidualClipping | None = option(
        default=None,
        none_text="never",
        label="Clip what waits to be sent",
        group=THRESHOLD,
        help="Bounds the residual, so that no change is sent long after it was of use. What it "
        "cuts off is lost, so a network learns more slowly with it.",
    )
    minibatches_per_message: int | None = option(
        default=None,
        minimum=1,
        none_text="so many that messages cost a fifth of training, at most 5 and `max_staleness`",
        unit="minibatches",
        group=MESSAGES,
        help="Minibatches that a worker trains before it sends an update. 1 is DL4J's way. "
        "A message costs a millisecond or two whatever it holds, and half a millisecond for each "
        "megabyte of parameters, so quick minibatches should share one.",
    )
    communication: SharingCommunication = option(
        default="mesh",
        group=MESSAGES,
        label="Messages go by",
        help='"mesh": the workers connect to one another, as `MeshConfig(mode=…)` says. "driver": '
        "likewise, but all connections go by way of the driver's port, for clusters where "
        "executors may not open ports for one another.",
    )
    per_variable_thresholds: bool = option(
        default=False,
        group=MESSAGES,
        label="A threshold for each variable",
        help="Adapt a threshold for each of the model's variables instead of one for all. Worth it "
        "when updates of some layers are much larger than those of others.",
    )
    combine: Combine = option(
        default="sum",
        label="Updates count",
        help='"sum": in full, as in the papers; n workers then act like a learning rate n times as '
        'high. "mean": each worker takes an n-th of its optimizer\'s step; slower, and safer with '
        "many workers.",
    )
    max_staleness: int | None = option(
        default=None,
        minimum=0,
        none_text="no limit",
        unit="minibatches",
        label="Ahead of the slowest, at most",
        help="Minibatches that a worker may be ahead of the slowest. About 10 keeps the updates of "
        "a slow machine of use. 0 makes all go in step, and the fast ones wait.",
    )
    repartitioner: Repartitioner = option(
        default_factory=DefaultRepartitioner,
        kinds={"default": DefaultRepartitioner, "none": NoRepartitioner},
        methods=("partitions",),
        label="Cut an epoch's work",
        group=DATA,
        help='Into how many pieces an epoch\'s work is cut. "default": small ones, so that workers '
        'of unequal speed finish together: idle workers take over remaining pieces. "none": as '
        "large as possible.",
    )
    piece_minibatches: int | None = option(
        default=None,
        minimum=1,
        unit="minibatches",
        none_text="as `repartitioner` says",
        group=DATA,
        label="Piece of work",
        help="Minibatches in a piece of work. By default there are at least 16 pieces for each "
        "worker; a fast worker gets several at a time, a tenth of a second's work.",
    )
    periodic_gc: bool = option(
        default=True,
        group=SPEED,
        label="Collect garbage at intervals",
        help="Run Python's garbage collector on workers at fixed intervals only, so that it does "
        "not hold up minibatches. Leave it on.",
    )
    periodic_gc_interval_s: float = option(
        default=5.0,
        above=0,
        unit="s",
        group=SPEED,
        label="Garbage collected every",
        help="Seconds between collections. Shorten it if the memory of workers grows between them.",
    )
    encoding_debug_mode: bool = option(
        default=False,
        group=DIAGNOSTICS,
        label="Log what messages leave out",
        help="Log the residual, its size and percentiles, before each message. It costs time. Use "
        "it to choose a threshold: if most of the residual is tens of thresholds large, the "
        "threshold is too low.",
    )

    def _check(self) -> None:
        TrainingMaster._check(self)  # `slots=True` replaces the class, which breaks `super()`
        if self.workers is not None and self.workers_per_node is not None:
            raise ConfigurationError(
                "`workers_per_node` and `workers` both say how many workers there are. Received: "
                f"workers_per_node={self.workers_per_node}, workers={self.workers}. Give one."
            )

    def worker_count(
        self,
        *,
        slots: int | None,
        executors: int | None,
        cores_per_executor: int = 1,
        gpus_per_executor: int = 0,
    ) -> int:
        """Return the number of workers of a run for the given Spark resources.

        Args:
            slots: maximum number of concurrent tasks; None if it can change.
            executors: number of Spark executors; None if tasks run in the driver ("local[n]").
            cores_per_executor: CPU cores per executor; default 1.
            gpus_per_executor: GPUs per executor; default 0.

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
        """Return the number of minibatches in each piece of work, at least 1.

        Args:
            rows: number of examples of each worker.
        """
        if self.piece_minibatches is not None:
            return self.piece_minibatches
        return piece_size(rows, self.batch_size_per_worker, self.repartitioner)

    @property
    def exchange(self) -> Exchange:
        """The largest residuals with every message, and all residuals at the end of an epoch."""
        return Exchange(
            what=("residuals", "moments"),
            every=self.minibatches_per_message,
            precision="threshold",
            density=expected_sparsity(self.threshold),
            among=self.communication,
        )


def automatic_workers(*, cores: int, gpus: int = 0) -> int:
    """Return the workers per machine: one per GPU, else a quarter of the cores, from 1 to 6.

    Follows Deeplearning4j's rule, but also counts a single GPU.

    Example:
        >>> [automatic_workers(cores=cores) for cores in (1, 8, 96)]
        [1, 2, 6]
    """
    if gpus > 0:
        return gpus
    return min(_MOST_AUTOMATIC_WORKERS, max(1, cores // _CORES_PER_AUTOMATIC_WORKER))
