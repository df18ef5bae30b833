"""A network that tasks can run: its weights in a broadcast, a trainer of their machine to do it.

Examples go to the trainer in blocks of a few megabytes, so neither a task nor a trainer ever holds
a partition.
"""

import hashlib
import math
import os
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.cluster.slots import wait_for_slots
from sparkwright.data import DataSet, Normalizer
from sparkwright.errors import DataError, NetworkError, WorkerError
from sparkwright.networks import ModelDefinition, ModelState, pack_arrays
from sparkwright.networks.signature import output_types
from sparkwright.options import check_count
from sparkwright.workers.pool import BorrowedTrainer, TrainerPool, driver_secret
from sparkwright.workers.requests import (
    Adapting,
    Answer,
    Evaluating,
    InferRequest,
    Predicting,
    Scoring,
)

from .gpus import device_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Large enough that asking costs little, small enough that a task's memory stays small.
BLOCK_BYTES = 8 << 20
What = Evaluating | Scoring | Predicting | Adapting
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
        outputs: (dtype, shape of one example) of each output; None stands for any length.
        secret: the driver's, for the trainers.
    """

    definition: ModelDefinition
    weights: Any = field(repr=False)
    digest: str
    batch_size: int
    workers: int | None
    outputs: tuple[tuple[str, tuple[int | None, ...]], ...]
    secret: bytes = field(repr=False)

    @classmethod
    def of(
        cls, spark: "SparkSession", model: Any, *, batch_size: int, workers: int | None = None
    ) -> "Inference":
        """Describe `model` as it is now, and broadcast its weights.

        Raises:
            ConfigurationError: if a number is below 1, or the model cannot be described.
            SlotsError: if no executor comes, with a GPU where tasks need one.
        """
        check_count("batch_size", batch_size)
        check_count("eval_workers", workers, optional=True)
        state = ModelState.of(model, training=False)
        outputs = tuple(output_types(model).values())
        definition = ModelDefinition.of(model)
        wait_for_slots(spark, 1)
        ship_engine(spark)  # a lazy result is computed by an action of the user's own
        content = state.read(updater=False).tobytes() + pack_arrays(state.read_extras())
        return cls(
            definition=definition,
            weights=context_of(spark).broadcast(content),
            digest=hashlib.sha256(content).hexdigest(),
            batch_size=batch_size,
            workers=workers,
            outputs=outputs,
            secret=driver_secret(),
        )

    def close(self) -> None:
        """Remove the weights from executors and driver: nothing will ask for them any more."""
        self.weights.destroy()

    def cut(self, dataset: DataSet) -> Iterator[DataSet]:
        """Consecutive pieces that are small, together with what the network makes of them."""
        if len(dataset):
            row_bytes = self._size_bytes(dataset) // len(dataset)
            yield from dataset.batches(max(1, BLOCK_BYTES // max(1, row_bytes)))

    def blocks(
        self, pieces: Iterable[tuple[Tag, DataSet]], *, size_bytes: int = BLOCK_BYTES
    ) -> "Iterator[Block[Tag]]":
        """Join pieces to blocks of about `size_bytes`, outputs included, in order.

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
            waiting_bytes += self._size_bytes(dataset)
        if waiting:
            yield _joined(waiting)

    def _size_bytes(self, dataset: DataSet) -> int:
        """Of the examples and of their outputs."""
        lengths = [array.shape[1] for array in dataset.features.values() if array.ndim > 1]
        steps = max(lengths, default=1)
        row_bytes = sum(
            8 * math.prod(steps if size is None else size for size in shape)
            for _, shape in self.outputs
        )
        return dataset.size_bytes + row_bytes * len(dataset)


class InferenceSession:
    """Runs a network inside a Spark task, block after block.

    A trainer of the machine is borrowed for each block and given back: a task may predict with
    several networks, one after the other's outputs, and must not wait for what it holds itself.

    Attributes:
        inference: the network.
    """

    def __init__(self, inference: Inference) -> None:
        """Find this machine's trainers."""
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        self.inference = inference
        self._device: dict[str, Any] = {
            **device_of(context),
            "backend": inference.definition.backend,
        }
        self._pool = TrainerPool(owner=os.getppid(), secret=inference.secret)

    def run(self, dataset: DataSet, what: What, records: list[Any] | None = None) -> Any:
        """What `run_inference` makes of the examples.

        Raises:
            DataError: if they do not fit the network.
            WorkerError: if the network, or the trainer, fails.
        """
        request = InferRequest(
            definition=self.inference.definition,
            digest=self.inference.digest,
            columns=dataset.columns(),
            records=records,
            batch_size=self.inference.batch_size,
            what=what,
        )
        with self._pool.borrow(**self._device, at_most=self.inference.workers) as trainer:
            answer = trainer.ask(request)
            if answer.kind == "weights":
                answer = self._with_weights(trainer, request)
        if answer.error:
            raise _error_of(answer)
        return answer.result

    def _with_weights(self, trainer: BorrowedTrainer, request: InferRequest) -> Answer:
        path = self._pool.scratch()
        path.write_bytes(self.inference.weights.value)
        try:
            return trainer.ask(replace(request, weights=str(path)))
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
    """Neighboring pieces of one layout, joined.

    Attributes:
        dataset: their examples.
        parts: each piece's tag, and which of the examples are its own.
    """

    dataset: DataSet
    parts: list[tuple[Tag, slice]]


def _joined(pieces: list[tuple[Tag, DataSet]]) -> Block[Tag]:
    parts: list[tuple[Tag, slice]] = []
    start = 0
    for tag, dataset in pieces:
        parts.append((tag, slice(start, start + len(dataset))))
        start += len(dataset)
    return Block(DataSet.concatenate([dataset for _, dataset in pieces]), parts)


def mapped_pieces(
    inference: Inference,
    what: What,
    pieces: Iterable[tuple[Tag, DataSet]],
    *,
    called: Callable[[Tag], str] | None = None,
) -> Iterator[tuple[Tag, Any]]:
    """Each piece's tag and outputs, or losses, inside a Spark task.

    Args:
        inference: the network.
        what: what to do with the outputs.
        pieces: tagged examples.
        called: what an error calls a piece; default None: nothing.
    """
    session = InferenceSession(inference)
    for block in inference.blocks(pieces):
        try:
            found = session.run(block.dataset, what)
        except DataError as error:
            if called is None:
                raise
            names = [called(tag) for tag, _ in block.parts]
            shown = names if len(names) < 4 else [*names[:2], "…", names[-1]]
            raise DataError(f"{error} Received for {', '.join(shown)}.") from None
        for tag, rows in block.parts:
            if isinstance(found, Mapping):
                yield tag, {name: array[rows] for name, array in found.items()}
            else:
                yield tag, found[rows]


def with_normalized_features(normalizer: Normalizer | None, data: DataSet) -> DataSet:
    """`data` with the features that the network sees, and with its labels as they are.

    Raises:
        DataError: if the names are not those that the normalizer was fitted to.
    """
    if normalizer is None:
        return data
    seen = normalized(normalizer, DataSet(data.features, features_masks=data.features_masks))
    return DataSet(
        seen.features,
        data.labels,
        features_masks=data.features_masks,
        labels_masks=data.labels_masks,
        weights=data.weights,
    )


def normalized(normalizer: Normalizer | None, data: DataSet) -> DataSet:
    """`data` as training sees it.

    A single input, or output, may have another name than the normalizer was fitted to; which of
    several is which, names must say.

    Raises:
        DataError: if they do not.
    """
    if normalizer is None:
        return data
    names: dict[str, str] = {
        **_renamed("features", data.features, normalizer.feature_names),
        **_renamed("labels", data.labels, normalizer.label_names),
    }
    columns = {names.get(name, name): array for name, array in data.columns().items()}
    seen = normalizer.transform(DataSet.from_columns(columns)).columns()
    for name, known in names.items():
        if known in seen:
            seen[name] = seen.pop(known)
    return DataSet.from_columns(seen)


def _renamed(
    group: str, given: Mapping[str, Any], fitted: tuple[str, ...] | None
) -> dict[str, str]:
    """Flat name of the only array of `group` -> the one that was fitted."""
    if fitted is None or len(given) != 1 or len(fitted) != 1:
        return {}
    (name,), (known,) = given, fitted
    return {f"{part}/{name}": f"{part}/{known}" for part in (group, f"{group}_masks")}
