"""Requests of a task to a trainer process, and the answers.

A task starts a trainer as the same user and connects to a Unix socket in a folder that only that
user can access. Both sides prove the application's secret before any message, and the kernel
confirms the peer's user. Messages are JSON and raw bytes, plus the user's layers and functions,
serialized by cloudpickle as Spark closures are; see `_wire`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from numpy.typing import NDArray

from sparkwright.data import Normalizer, TfData
from sparkwright.evaluation import AbstractEvaluation, CustomEvaluation
from sparkwright.masters import TrainingMaster
from sparkwright.masters.histograms import Histograms
from sparkwright.networks import ModelDefinition
from sparkwright.workers.protocol import Failure
from sparkwright.workers.work import Span

from .examples import Earlier
from .failure import failure_of

M = TypeVar("M", bound=TrainingMaster)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Training:
    """Common fields of training requests."""

    definition: ModelDefinition
    run: str  # also in names of threads
    shard: str  # folder of the worker's examples
    settings: Any  # `WorkerSettings`, completed by `fill_in`
    # Monotonic: when the task began and when its files were ready, for the timeline.
    times: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainRequest(_Training):
    """Train as a worker of a run."""

    controller: tuple[str, int]  # (host, port) of the coordinator
    secret: bytes = field(repr=False)
    listen_host: str  # address, or a network that contains it; empty: that towards the coordinator
    validation: str  # folder of the validation examples
    consume: bool  # remove the files once they are mapped
    stream: TfData | None = None  # all `shards` workers read it; None: read `shard`
    shards: int = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class RoundRequest(_Training):
    """Train one round from a given vector and return the new one (`communication="spark"`)."""

    epoch: int  # from 0
    share: Span | None
    first: bool  # whether this is an epoch's first round
    iterations: int  # of the optimizer
    vector: bytes = field(repr=False)  # in the layout of `ModelState.read`
    # The driver's integer and fixed state; used in the run's first round.
    extras: bytes = field(repr=False)
    learning_rate: float | None = None  # set by callbacks; None: the compiled one


@dataclass(frozen=True, kw_only=True, slots=True)
class ValidateRequest(_Training):
    """Score a given vector on the validation examples in `shard` (`communication="spark"`).

    The answer has the values of the compiled metrics, and as payload float64 sums that may be added
    up over workers: of the loss, of the examples, and the metrics' accumulators.
    """

    vector: bytes = field(repr=False)  # as of `RoundRequest`
    extras: bytes = field(repr=False)  # used if the run has not trained in this process
    sums: tuple[float, ...] | None = None  # of all workers; None: this worker's


@dataclass(frozen=True, kw_only=True, slots=True)
class Evaluating:
    """Evaluate predictions."""

    evaluations: Mapping[str, tuple[AbstractEvaluation, ...]]  # output -> prototypes to update
    # Of the labels in training; evaluations receive labels and predictions unscaled.
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
    """Compute the loss."""

    each: bool = False  # the loss of each example instead of the sum
    regularization: bool = True  # only with `each`


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicting:
    """Return the outputs."""

    # Of the labels in training; outputs are in the labels' original units.
    normalizer: Normalizer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapting:
    """Compute the statistics to adapt a preprocessing layer, which replaces the network."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferRequest:
    """Run the network on examples in inference mode."""

    definition: ModelDefinition
    digest: str  # of the weights; a trainer with others answers with kind "weights"
    weights: str = ""  # their file; empty if the trainer may have them already
    columns: Mapping[str, NDArray[Any]] = field(repr=False)  # as returned by `DataSet.columns`
    # Names of the examples, for evaluations that store some; many, so sent as JSON text.
    records: Sequence[Any] | None = field(default=None, repr=False, metadata={"json": True})
    batch_size: int
    what: Evaluating | Scoring | Predicting | Adapting


Request = TrainRequest | RoundRequest | ValidateRequest | InferRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The answer to a request."""

    fields: dict[str, Any] = field(default_factory=dict[str, Any])  # JSON-serializable results
    # Of a round, the vector, followed by worker 0's counters.
    payload: bytes = field(default=b"", repr=False)
    result: Any = field(default=None, repr=False)  # of inference
    kind: str = ""  # "weights": they are needed first
    failed: Failure | None = None  # without worker and host

    def failure(self, *, worker: int, host: str = "") -> Failure | None:
        """Return the failure for the driver; None on success."""
        return self.failed and replace(self.failed, worker=worker, host=host)

    @classmethod
    def of_error(cls, error: BaseException) -> "Answer":
        """Describe an exception; call it in an `except` block."""
        return cls(failed=failure_of(error, worker=-1, host=""))


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings(Generic[M]):
    """Settings of a run for one worker."""

    master: M = field(repr=False)  # with a seed
    epochs: int
    worker: int = -1  # -1 in an incomplete template
    attempt: int = -1  # of the task, increasing
    callbacks: bool = False  # wait for the driver's callbacks after each epoch
    callback_frequency: int = 0  # averagings between callbacks; 0: only after epochs
    histograms: Histograms | None = None  # None: only on request
    # Planned, of each worker; empty: not known before the workers have their data.
    rows: tuple[int, ...] = ()
    earlier: Earlier | None = None  # what the checkpointed run left, if it had other workers

    @property
    def stop_at_non_finite(self) -> bool:
        """Whether a NaN or infinite loss or parameter ends the run."""
        return self.master.non_finite == "stop"


def fill_in(
    template: Any,
    *,
    worker: int,
    attempt: int,
    shard: str,
    validation: str,
    times: tuple[float, float],
) -> Any:
    """Complete the template of a `TrainRequest` for one worker."""
    settings = replace(template.settings, worker=worker, attempt=attempt)
    return replace(template, settings=settings, shard=shard, validation=validation, times=times)
