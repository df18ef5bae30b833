"""Requests of a task to a trainer process, and the answers.

A task starts a trainer as the same user and connects to a Unix socket in a folder that only that
user can access. Both sides prove the application's secret before any message, and the kernel
confirms the peer's user. Messages are JSON and raw bytes, plus the user's layers and functions,
serialized by cloudpickle as Spark closures are; see `_wire`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from sparkwright.data import Normalizer, TfData
from sparkwright.evaluation import AbstractEvaluation, CustomEvaluation
from sparkwright.masters import TrainingMaster
from sparkwright.masters.histograms import Histograms
from sparkwright.networks import ModelDefinition
from sparkwright.workers.protocol import Failure
from sparkwright.workers.work import Span

from ._replica_base import XlaChoice
from .examples import Earlier
from .failure import failure_of

M = TypeVar("M", bound=TrainingMaster)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Training:
    """Common fields of training requests."""

    definition: ModelDefinition
    xla: XlaChoice
    run: str  # also in names of threads
    shard: str  # folder of the worker's examples
    settings: Any  # `WorkerSettings`
    # Monotonic: when the task began and when its files were ready, for the timeline.
    times: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainRequest(_Training):
    """Train as a worker of a run.

    Attributes:
        controller: (host, port) of the coordinator.
        secret: the run's secret.
        listen_host: the address to listen on, or a network such as "10.0.0.0/16" that contains it.
            Empty: the local address of the connection to the coordinator.
        ports: allowed ports, as in `MeshConfig`.
        stream: pipeline that all `shards` workers read; None: read examples from `shard`.
        validation: folder of the validation examples.
        consume: whether to remove the files once they are mapped.
    """

    controller: tuple[str, int]
    secret: bytes = field(repr=False)
    listen_host: str
    ports: str | int | None
    validation: str
    consume: bool
    stream: TfData | None = None
    shards: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundRequest(_Training):
    """Train one round from a given vector and return the new one (`communication="spark"`).

    Attributes:
        epoch: from 0.
        share: the minibatches to train, or None.
        first: whether this is an epoch's first round.
        iterations: the optimizer's iterations.
        vector: the starting state, in the layout of `ModelState.read`.
        extras: the driver's integer and fixed state, packed; used in the run's first round.
        learning_rate: set by callbacks; None: the compiled one.
        rows: examples of every worker.
    """

    epoch: int
    share: Span | None
    first: bool
    iterations: int
    vector: bytes = field(repr=False)
    extras: bytes = field(repr=False)
    learning_rate: float | None = None
    rows: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateRequest(_Training):
    """Score a given vector on the validation examples in `shard` (`communication="spark"`).

    The answer has the values of the compiled metrics, and as payload float64 sums that may be added
    up over workers: of the loss, of the examples, and the metrics' accumulators.

    Attributes:
        vector: as of `RoundRequest`.
        extras: as of `RoundRequest`; used if the run has not trained in this process.
        sums: return the metrics of these sums of all workers; None: this worker's sums.
    """

    vector: bytes = field(repr=False)
    extras: bytes = field(repr=False)
    sums: tuple[float, ...] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluating:
    """Evaluate predictions.

    Attributes:
        evaluations: output name -> prototypes to update with the examples.
        normalizer: normalizer of the labels in training, or None. Evaluations receive unscaled
            labels, and predictions in the same units.
    """

    evaluations: Mapping[str, tuple[AbstractEvaluation, ...]]
    normalizer: Normalizer | None = None

    def without_code(self, counted: Mapping[str, tuple[AbstractEvaluation, ...]]) -> dict[str, Any]:
        """Convert evaluations to a form without the user's functions and classes."""
        return {name: tuple(map(_without_code, found)) for name, found in counted.items()}

    def with_code(self, found: Mapping[str, Any]) -> dict[str, tuple[AbstractEvaluation, ...]]:
        """Invert `without_code`; take functions and classes from the prototypes."""
        return {
            name: tuple(map(_with_code, self.evaluations[name], counted))
            for name, counted in found.items()
        }


def _without_code(counted: AbstractEvaluation) -> Any:
    if isinstance(counted, CustomEvaluation):
        return CustomEvaluation.from_dict(counted.to_dict())
    is_ours = type(counted).__module__.startswith("sparkwright.")
    return counted if is_ours else counted.to_dict()


def _with_code(prototype: AbstractEvaluation, found: Any) -> AbstractEvaluation:
    if isinstance(prototype, CustomEvaluation):
        return prototype + found
    return type(prototype).from_dict(found) if isinstance(found, dict) else found


@dataclass(frozen=True, kw_only=True, slots=True)
class Scoring:
    """Compute the loss.

    Attributes:
        each: whether to return the loss of each example instead of the sum.
        regularization: whether the loss includes regularization; only with `each`.
    """

    each: bool = False
    regularization: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicting:
    """Return the outputs.

    Attributes:
        normalizer: normalizer of the labels in training, or None. Outputs are converted to the
            labels' original units.
    """

    normalizer: Normalizer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapting:
    """Compute the statistics to adapt a preprocessing layer, which replaces the network."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferRequest:
    """Run the network on examples in inference mode.

    Attributes:
        definition: the network.
        digest: digest of the weights. A trainer with other weights answers with kind "weights".
        weights: file of the weights; empty if the trainer may have them already.
        columns: the examples, as returned by `DataSet.columns`.
        records: JSON-serializable names of the examples, for evaluations that store some of them;
            sent as JSON text, because there may be many.
        batch_size: examples per call.
        what: what to compute from the outputs.
    """

    definition: ModelDefinition
    digest: str
    weights: str = ""
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    records: Sequence[Any] | None = field(default=None, repr=False, metadata={"json": True})
    batch_size: int
    what: Evaluating | Scoring | Predicting | Adapting


Request = TrainRequest | RoundRequest | ValidateRequest | InferRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer to a request; `error` is empty on success.

    Attributes:
        fields: JSON-serializable results.
        payload: binary results; of a round, the vector, followed by worker 0's counters.
        kind: kind of a failure, see `Failure`; or "lost" if the connection to the driver broke,
            "weights" if the trainer needs the weights first.
        result: result of inference.
        error: one sentence.
        traceback: the trainer's traceback.
    """

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: bytes = field(default=b"", repr=False)
    result: Any = field(default=None, repr=False)
    kind: str = ""
    error: str = ""
    traceback: str = field(default="", repr=False)

    def failure(self, *, worker: int, host: str = "") -> Failure | None:
        """Return the failure for the driver; None on success."""
        if not self.error:
            return None
        return Failure(
            worker=worker, host=host, kind=self.kind, reason=self.error, traceback=self.traceback
        )

    @classmethod
    def of_error(cls, error: BaseException) -> "Answer":
        """Describe an exception; call it in an `except` block."""
        found = failure_of(error, worker=-1, host="")
        return cls(kind=found.kind, error=found.reason, traceback=found.traceback)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings(Generic[M]):
    """Settings of a run for one worker.

    Attributes:
        master: the training master, with a seed.
        epochs: passes over the data.
        worker: number of the worker; -1 in an incomplete template.
        attempt: number of the task's attempt, increasing.
        copies: whether the driver receives a copy of the state at intervals, see `CopySchedule`.
        callbacks: whether to wait for the driver's callbacks after each epoch.
        callback_frequency: averagings within an epoch between callbacks; 0: only after epochs.
        histograms: which histograms to compute, and when; None: only on request.
        rows: planned examples of each worker; empty: not known before the workers have their data.
        earlier: what the checkpointed run left, if it had other workers.
    """

    master: M = field(repr=False)
    epochs: int
    worker: int = -1
    attempt: int = -1
    copies: bool = True
    callbacks: bool = False
    callback_frequency: int = 0
    histograms: Histograms | None = None
    rows: tuple[int, ...] = ()
    earlier: Earlier | None = None

    @property
    def stop_at_non_finite(self) -> bool:
        """Whether a NaN or infinite loss or parameter ends the run."""
        return self.master.non_finite == "stop"
