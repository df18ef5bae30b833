"""What a task asks of a trainer process, and how it is carried there.

A trainer is started by its own user's task and reached through a Unix socket in a folder that only
that user can enter. Both sides prove the application's secret before anything is read, and the
kernel confirms the peer's user. See `_wire` for what travels there: JSON and raw bytes, and
the user's own layers and functions, cloudpickled as Spark's closures are.
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
from .failure import failure_of

M = TypeVar("M", bound=TrainingMaster)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Training:
    """What both ways of training a worker's examples need.

    Attributes:
        definition: the network.
        xla: see the master.
        run: the run's id; also for names of threads.
        shard: folder of the worker's examples.
        settings: `WorkerSettings`.
        times: when the task began and when the files were written, by the machine's monotonic
            clock; the files may have been there before. Only for a timeline.
    """

    definition: ModelDefinition
    xla: XlaChoice
    run: str
    shard: str
    settings: Any
    times: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainRequest(_Training):
    """Take part in a run.

    Attributes:
        controller: (host, port) of the coordinator.
        secret: the run's.
        listen_host: the address to listen on, or a network such as "10.0.0.0/16" to choose it from;
            empty: the one that leads to the coordinator.
        ports: those that may be listened on, as `MeshConfig` takes them.
        stream: what all `shards` workers draw their examples from; None: they are in `shard`.
        validation: folder of its validation examples.
        consume: whether the files may be removed as soon as they are mapped.
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
    """Train one round from a given vector and return the worker's (`communication="spark"`).

    Attributes:
        epoch: from 0.
        share: the minibatches to train; None: none.
        first: whether this is an epoch's first round.
        iterations: the optimizer's.
        vector: the state to start from, as `ModelState.read` gives it.
        extras: the driver's integer and fixed state, packed; used in the run's first round.
        learning_rate: what callbacks have set; None: the compiled one.
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
class Evaluating:
    """Count predictions.

    Attributes:
        evaluations: output name -> prototypes, which the block is counted into.
        normalizer: what scales labels in training; evaluations see labels as they are, and
            predictions in the same units. None: nothing does.
    """

    evaluations: Mapping[str, tuple[AbstractEvaluation, ...]]
    normalizer: Normalizer | None = None

    def without_code(self, counted: Mapping[str, tuple[AbstractEvaluation, ...]]) -> dict[str, Any]:
        """`counted` as an answer holds it: without the user's own functions and classes."""
        return {name: tuple(map(_without_code, found)) for name, found in counted.items()}

    def with_code(self, found: Mapping[str, Any]) -> dict[str, tuple[AbstractEvaluation, ...]]:
        """The inverse of `without_code`: functions and classes are those of the prototypes."""
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
    """Sum up the loss.

    Attributes:
        each: one loss for every example instead.
        regularization: whether it belongs to the loss; only with `each`.
    """

    each: bool = False
    regularization: bool = True


@dataclass(frozen=True, kw_only=True, slots=True)
class Predicting:
    """Give the outputs.

    Attributes:
        normalizer: what scaled the labels; outputs are given in the labels' own units. None:
            nothing did.
    """

    normalizer: Normalizer | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Adapting:
    """Find what a preprocessing layer, in place of a network, has to know of the examples."""


@dataclass(frozen=True, kw_only=True, slots=True)
class InferRequest:
    """Run the network over some examples in inference mode.

    Attributes:
        definition: the network.
        digest: of the weights; a trainer that has others asks for them.
        weights: file of the weights; empty: only if the trainer has them already.
        columns: the examples, as `DataSet.columns` gives them.
        records: JSON-able names of the examples, for evaluations that remember some; sent as text,
            because there may be very many.
        batch_size: examples a call.
        what: what to do with the outputs.
    """

    definition: ModelDefinition
    digest: str
    weights: str = ""
    columns: Mapping[str, NDArray[Any]] = field(repr=False)
    records: Sequence[Any] | None = field(default=None, repr=False, metadata={"json": True})
    batch_size: int
    what: Evaluating | Scoring | Predicting | Adapting


Request = TrainRequest | RoundRequest | InferRequest


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """What a request led to; `error` is empty when all went well.

    Attributes:
        fields: JSON-able results.
        payload: bytes that belong to them; of a round the vector, then worker 0's counters.
        kind: of a failure, see `Failure`, or "lost": the connection to the driver broke; "weights":
            the trainer needs these first.
        result: what inference led to.
        error: one sentence.
        traceback: the trainer's.
    """

    fields: dict[str, Any] = field(default_factory=dict[str, Any])
    payload: bytes = field(default=b"", repr=False)
    result: Any = field(default=None, repr=False)
    kind: str = ""
    error: str = ""
    traceback: str = field(default="", repr=False)

    def failure(self, *, worker: int, host: str = "") -> Failure | None:
        """What went wrong, for the driver; None if nothing did."""
        if not self.error:
            return None
        return Failure(
            worker=worker, host=host, kind=self.kind, reason=self.error, traceback=self.traceback
        )

    @classmethod
    def of_error(cls, error: BaseException) -> "Answer":
        """Describe an exception, to be called while it is handled."""
        found = failure_of(error, worker=-1, host="")
        return cls(kind=found.kind, error=found.reason, traceback=found.traceback)


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkerSettings(Generic[M]):
    """The training master and the run, as one worker sees them.

    Attributes:
        master: with a seed.
        epochs: passes over the data.
        worker: its number; -1 in a template that is still to be completed.
        attempt: of its task; a later one is greater.
        copies: whether the driver gets a copy of the state at intervals, see `CopySchedule`.
        evaluate_every: epochs from one evaluation of the validation data to the next; the last
            epoch is evaluated in any case.
        judged: after an evaluation, wait for the driver's verdict.
        callbacks: after each epoch, wait for the driver's callbacks.
        callback_frequency: likewise after so many averagings of an epoch; 0: not.
        histograms: which to take, and when; None: only on request.
    """

    master: M = field(repr=False)
    epochs: int
    worker: int = -1
    attempt: int = -1
    copies: bool = True
    evaluate_every: int = 1
    judged: bool = False
    callbacks: bool = False
    callback_frequency: int = 0
    histograms: Histograms | None = None

    @property
    def stop_at_non_finite(self) -> bool:
        """Whether a NaN or infinite loss or parameter ends the run."""
        return self.master.non_finite == "stop"
