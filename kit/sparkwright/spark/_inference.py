"""Inference in Spark tasks: the weights are broadcast, and a trainer on the machine runs the model.

Examples go to the trainer in blocks of a few megabytes; neither tasks nor trainers hold a whole
partition.
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
from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.cluster.slots import wait_for_slots
from sparkwright.data import DataSet, Normalizer
from sparkwright.errors import DataError
from sparkwright.networks import ModelDefinition, ModelState, pack_arrays
from sparkwright.networks.signature import output_types
from sparkwright.options import check_count
from sparkwright.workers.failure import error_of
from sparkwright.workers.folders import remove
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

# Large enough to amortize a request, small enough to limit a task's memory.
BLOCK_BYTES = 8 << 20
What = Evaluating | Scoring | Predicting | Adapting
Tag = TypeVar("Tag")


@dataclass(frozen=True, kw_only=True, slots=True)
class Inference:
    """Everything a task needs to run the network; part of the task's closure."""

    definition: ModelDefinition
    weights: SharedBytes = field(repr=False)  # the bytes
    digest: str  # SHA-256 of these bytes
    batch_size: int  # examples per call
    workers: int | None  # most copies of the network per machine at a time; None: no limit
    # (dtype, shape of one example); None is any length.
    outputs: tuple[tuple[str, tuple[int | None, ...]], ...]
    secret: bytes = field(repr=False)  # of the driver, for the trainers

    @classmethod
    def of(
        cls, spark: "SparkSession", model: Any, *, batch_size: int, workers: int | None = None
    ) -> "Inference":
        """Create an Inference from the current state of `model`, and broadcast its weights."""
        check_count("batch_size", batch_size)
        check_count("eval_workers", workers, optional=True)
        state = ModelState.of(model, training=False)
        outputs = tuple(output_types(model).values())
        definition = ModelDefinition.of(model)
        wait_for_slots(spark, 1)
        ship_engine(spark)  # the user's later actions may compute the result
        content = state.read(updater=False).tobytes() + pack_arrays(state.read_extras())
        return cls(
            definition=definition,
            weights=SharedBytes.of(context_of(spark), content),
            digest=hashlib.sha256(content).hexdigest(),
            batch_size=batch_size,
            workers=workers,
            outputs=outputs,
            secret=driver_secret(),
        )

    def close(self) -> None:
        """Destroy the broadcast of the weights on executors and driver."""
        self.weights.destroy()

    def cut(self, dataset: DataSet) -> Iterator[DataSet]:
        """Yield consecutive pieces whose features and outputs are small."""
        if len(dataset):
            row_bytes = self._size_bytes(dataset) // len(dataset)
            yield from dataset.batches(max(1, BLOCK_BYTES // max(1, row_bytes)))

    def blocks(
        self, pieces: Iterable[tuple[Tag, DataSet]], *, size_bytes: int = BLOCK_BYTES
    ) -> "Iterator[Block[Tag]]":
        """Join pieces into blocks of about `size_bytes`, outputs included, in order."""
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
        """Return the size of the examples and of their outputs."""
        lengths = [array.shape[1] for array in dataset.features.values() if array.ndim > 1]
        steps = max(lengths, default=1)
        row_bytes = sum(
            8 * math.prod(steps if size is None else size for size in shape)
            for _, shape in self.outputs
        )
        return dataset.size_bytes + row_bytes * len(dataset)


class InferenceSession:
    """Runs a network in a Spark task, block by block."""

    def __init__(self, inference: Inference) -> None:
        """Connect to the trainer pool of this machine."""
        from pyspark import TaskContext

        context: Any = TaskContext.get()
        self.inference = inference
        self._device: dict[str, Any] = {
            **device_of(context),
            "backend": inference.definition.backend,
        }
        self._pool = TrainerPool(owner=os.getppid(), secret=inference.secret)

    def run(self, dataset: DataSet, what: What, records: list[Any] | None = None) -> Any:
        """Return the result of `run_inference` for the examples."""
        request = InferRequest(
            definition=self.inference.definition,
            digest=self.inference.digest,
            columns=dataset.columns(),
            records=records,
            batch_size=self.inference.batch_size,
            what=what,
        )
        # A task may predict with several networks in a chain: keeping a trainer could deadlock.
        with self._pool.borrow(**self._device, at_most=self.inference.workers) as trainer:
            answer = trainer.ask(request)
            if answer.kind == "weights":
                answer = self._with_weights(trainer, request)
        if (failure := answer.failure(worker=-1, host=socket.gethostname())) is not None:
            raise error_of(failure)
        return answer.result

    def _with_weights(self, trainer: BorrowedTrainer, request: InferRequest) -> Answer:
        folder = self._pool.scratch()
        try:
            path = folder / "weights"
            with path.open("xb") as file:
                file.writelines(self.inference.weights)
            return trainer.ask(replace(request, weights=str(path)))
        finally:
            remove(folder)


class Block(NamedTuple, Generic[Tag]):
    """Joined neighboring pieces of one layout."""

    dataset: DataSet
    parts: list[tuple[Tag, slice]]  # tag and rows of each piece


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
    called: Callable[[Tag], str] | None = None,  # name of a tag in error messages
) -> Iterator[tuple[Tag, Any]]:
    """Yield each piece's tag and result, in a Spark task."""
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
    """Return `data` with normalized features and unchanged labels."""
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
    """Return `data` with normalized features and labels."""
    if normalizer is None:
        return data
    # A single input or output may have another name than in the fitted data.
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
    """Map the flat name of the only array of `group` to the fitted name."""
    if fitted is None or len(given) != 1 or len(fitted) != 1:
        return {}
    (name,), (known,) = given, fitted
    return {f"{part}/{name}": f"{part}/{known}" for part in (group, f"{group}_masks")}
