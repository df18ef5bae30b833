"""A network that tasks can run: its weights in a broadcast, a trainer of their machine to do it.

Examples go to the trainer in blocks of a few megabytes, so neither a task nor a trainer ever holds
a partition.
"""

import contextlib
import hashlib
import os
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sparkwright.data import DataSet, Normalizer
from sparkwright.errors import ConfigurationError, DataError, NetworkError, WorkerError
from sparkwright.networks import ModelDefinition, ModelState, pack_arrays
from sparkwright.workers._pool import BorrowedTrainer, TrainerPool
from sparkwright.workers._requests import Answer, Evaluating, InferRequest, Predicting, Scoring

from ._tasks import device_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Large enough that asking costs little, small enough that a task's memory stays small.
BLOCK_BYTES = 8 << 20
What = Evaluating | Scoring | Predicting
Tag = TypeVar("Tag")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """What a task needs to run the network; travels in the task's closure.

    Attributes:
        definition: the network.
        weights: a Spark broadcast of the weights' bytes.
        digest: SHA-256 of these.
        batch_size: examples a call.
        workers: copies of the network at work at a time on an executor's machine; None: as many
            as there are tasks.
    """

    definition: ModelDefinition
    weights: Any = field(repr=False)
    digest: str
    batch_size: int
    workers: int | None

    @classmethod
    def of(
        cls, spark: "SparkSession", model: Any, *, batch_size: int, workers: int | None = None
    ) -> "Inference":
        """Describe `model` as it is now, and broadcast its weights.

        Raises:
            ConfigurationError: if a number is below 1, or the model cannot be described.
        """
        for name, value in (("batch_size", batch_size), ("eval_workers", workers)):
            if value is not None and (isinstance(value, bool) or value < 1):
                raise ConfigurationError(f"`{name}` must be at least 1. Received: {name}={value}.")
        state = ModelState.of(model, training=False)
        content = state.read(updater=False).tobytes() + pack_arrays(state.read_extras())
        return cls(
            definition=ModelDefinition.of(model),
            weights=spark.sparkContext.broadcast(content),
            digest=hashlib.sha256(content).hexdigest(),
            batch_size=batch_size,
            workers=workers,
        )

    def close(self) -> None:
        """Free the executors' copies of the weights; they come back if they are needed again."""
        self.weights.unpersist()

    @contextlib.contextmanager
    def session(self) -> "Generator[InferenceSession]":
        """A way to run this network inside a Spark task.

        A trainer is borrowed when the first examples come: an empty partition needs none.
        """
        with contextlib.ExitStack() as stack:
            yield InferenceSession(self, stack)


class InferenceSession:
    """A trainer of this machine, asked block after block."""

    def __init__(self, inference: Inference, stack: contextlib.ExitStack) -> None:
        """Use `Inference.session`."""
        self._inference, self._stack = inference, stack
        self._pool = TrainerPool(owner=os.getppid())
        self._borrowed: BorrowedTrainer | None = None

    def run(self, dataset: DataSet, what: What, records: list[Any] | None = None) -> Any:
        """What `run_inference` makes of the examples.

        Raises:
            DataError: if they do not fit the network.
            WorkerError: if the network, or the trainer, fails.
        """
        request = InferRequest(
            definition=self._inference.definition,
            digest=self._inference.digest,
            columns=dataset.columns(),
            records=records,
            batch_size=self._inference.batch_size,
            what=what,
        )
        answer = self._trainer.ask(request)
        if answer.kind == "weights":
            answer = self._with_weights(request)
        if answer.error:
            raise _error_of(answer)
        return answer.result

    @property
    def _trainer(self) -> BorrowedTrainer:
        from pyspark import TaskContext

        if self._borrowed is None:
            context: Any = TaskContext.get()
            lent = self._pool.borrow(**device_of(context), at_most=self._inference.workers)
            self._borrowed = self._stack.enter_context(lent)
        return self._borrowed

    def _with_weights(self, request: InferRequest) -> Answer:
        from dataclasses import replace

        path = self._pool.scratch()
        path.write_bytes(self._inference.weights.value)
        try:
            return self._trainer.ask(replace(request, weights=str(path)))
        finally:
            path.unlink(missing_ok=True)


def _error_of(answer: Answer) -> Exception:
    if answer.kind == "data":
        return DataError(answer.error)
    if answer.kind == "network":
        return NetworkError(answer.error)
    return WorkerError(
        worker=-1,
        host=socket.gethostname(),
        reason=answer.error,
        worker_traceback=answer.traceback,
    )


class Block(NamedTuple, Generic[Tag]):
    """Neighbouring pieces of one layout, joined.

    Attributes:
        dataset: their examples.
        parts: each piece's tag, and which of the examples are its own.
    """

    dataset: DataSet
    parts: list[tuple[Tag, slice]]


def blocks(
    pieces: Iterable[tuple[Tag, DataSet]], *, size_bytes: int = BLOCK_BYTES
) -> Iterator[Block[Tag]]:
    """Join pieces to blocks of about `size_bytes`, in order.

    A piece of another layout, as sequences of another length are, begins a new block. Pieces
    without examples are left out.
    """
    waiting: list[tuple[Tag, DataSet]] = []
    waiting_bytes = 0
    for tag, dataset in pieces:
        if not len(dataset):
            continue
        is_other = waiting and waiting[0][1].layout != dataset.layout
        if is_other or waiting_bytes >= size_bytes:
            yield _joined(waiting)
            waiting, waiting_bytes = [], 0
        waiting.append((tag, dataset))
        waiting_bytes += dataset.size_bytes
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[tuple[Tag, DataSet]]) -> Block[Tag]:
    parts: list[tuple[Tag, slice]] = []
    start = 0
    for tag, dataset in pieces:
        parts.append((tag, slice(start, start + len(dataset))))
        start += len(dataset)
    return Block(DataSet.concatenate([dataset for _, dataset in pieces]), parts)


def mapped_pieces(
    inference: Inference, what: What
) -> Callable[[Iterable[tuple[Tag, DataSet]]], Iterator[tuple[Tag, Mapping[str, Any]]]]:
    """A function from tagged pieces to each one's outputs; asks for a trainer with the first."""

    def mapped(pieces: Iterable[tuple[Tag, DataSet]]) -> Iterator[tuple[Tag, Mapping[str, Any]]]:
        with inference.session() as session:
            for block in blocks(pieces):
                outputs = session.run(block.dataset, what)
                for tag, rows in block.parts:
                    yield tag, {name: array[rows] for name, array in outputs.items()}

    return mapped


def with_normalized_features(normalizer: Normalizer | None, data: DataSet) -> DataSet:
    """`data` with the features that the network sees, and with its labels as they are.

    Features that carry the names of the network's inputs, not those that the normalizer was fitted
    to, are taken in order, as in training.
    """
    if normalizer is None:
        return data
    given, fitted = list(data.features), normalizer.feature_names
    names = dict(zip(given, given, strict=True))
    if fitted is not None and len(fitted) == len(given) and set(fitted) != set(given):
        names = dict(zip(given, fitted, strict=True))
    seen = normalizer.transform(
        DataSet(
            {names[name]: array for name, array in data.features.items()},
            features_masks={names[name]: mask for name, mask in data.features_masks.items()},
        )
    )
    return DataSet(
        {name: seen.features[names[name]] for name in given},
        data.labels,
        features_masks=data.features_masks,
        labels_masks=data.labels_masks,
        weights=data.weights,
    )
