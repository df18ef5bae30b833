"""Code that runs in a Spark task: stream the partition to files, call a trainer, report."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from sparkwright.data import from_bytes
from sparkwright.errors import DataError
from sparkwright.workers.failure import failure_of
from sparkwright.workers.pool import TrainerPool, driver_secret
from sparkwright.workers.requests import Answer, RoundRequest, TrainRequest, ValidateRequest
from sparkwright.workers.shard import ShardWriter

from .gpus import device_of

# Element of a training task: (order key, "train" or "validation", Arrow bytes).
Element = tuple[tuple[int, ...], str, bytes]


def training_task(
    template: TrainRequest, *, first: int = 0
) -> Callable[[int, Iterable[Element]], list[Any]]:
    """Return a function for `mapPartitionsWithIndex` that trains as worker `first` + index.

    It returns a list with one failure, or an empty list. It does not raise: Spark would retry the
    task immediately and finally abort the job, while the coordinator decides whether and when to
    retry. Spark only restarts tasks whose process or executor is lost.
    """
    secret, backend = driver_secret(), template.definition.backend

    def task(index: int, elements: Iterable[Element]) -> list[Any]:
        from dataclasses import replace

        from pyspark import TaskContext

        began_s, index = time.monotonic(), first + index
        context: Any = TaskContext.get()
        pool = TrainerPool(owner=os.getppid(), secret=secret)
        # Unlike the attempt number, the attempt id also increases when Spark reruns the stage.
        settings = replace(template.settings, worker=index, attempt=context.taskAttemptId())
        try:
            with Shards(pool, worker=index) as shards:
                # Write before borrowing a trainer: the data may be predictions of another network.
                shards.write(elements)
                request = replace(
                    template,
                    settings=settings,
                    shard=str(shards.train),
                    validation=str(shards.validation),
                    times=(began_s, time.monotonic()),
                )
                with pool.borrow(**device_of(context), backend=backend) as trainer:
                    answer = trainer.ask(request)
        except Exception as error:
            return [failure_of(error, worker=index, host=socket.gethostname()).to_dict()]
        failure = answer.failure(worker=index, host=socket.gethostname())
        return [] if failure is None else [failure.to_dict()]

    return task


def round_task(
    template: RoundRequest, state: Any
) -> Callable[[int, Iterable[Element]], list[Answer]]:
    """Return a function for `mapPartitionsWithIndex` that trains one round of its partition."""
    secret = driver_secret()

    def task(index: int, elements: Iterable[Element]) -> list[Answer]:
        began_s = time.monotonic()
        vector, extras, progress, shares = state.value
        return _asked(
            template,
            index,
            elements,
            "train",
            secret=secret,
            began_s=began_s,
            vector=vector,
            extras=extras,
            iterations=progress.iterations,
            epoch=progress.epoch,
            share=shares.get(index),
            first=progress.round == 0,
        )

    return task


def validation_task(
    template: ValidateRequest, state: Any, *, only: int | None = None
) -> Callable[[int, Iterable[Element]], list[Answer]]:
    """Return a function for `mapPartitionsWithIndex` that scores its partition."""
    secret = driver_secret()

    def task(index: int, elements: Iterable[Element]) -> list[Answer]:
        if only not in (None, index):
            return []
        began_s, (vector, extras) = time.monotonic(), state.value
        given: dict[str, Any] = {"vector": vector, "extras": extras}
        return _asked(
            template, index, elements, "validation", secret=secret, began_s=began_s, **given
        )

    return task


def _asked(
    template: RoundRequest | ValidateRequest,
    index: int,
    elements: Iterable[Element],
    kind: Literal["train", "validation"],
    *,
    secret: bytes,
    began_s: float,
    **fields: Any,
) -> list[Answer]:
    """Ask a trainer with the examples of `kind`; empty if there is nothing to validate."""
    from dataclasses import replace

    from pyspark import TaskContext

    context: Any = TaskContext.get()
    pool = TrainerPool(owner=os.getppid(), secret=secret)
    with Shards(pool, worker=index) as shards:
        try:
            rows = shards.write(each for each in elements if each[1] == kind)
        except DataError as error:  # a retry would fail again
            return [Answer.of_error(error)]
        if kind == "validation" and not rows:
            return []
        request = replace(
            template,
            settings=replace(template.settings, worker=index, attempt=context.taskAttemptId()),
            shard=str(getattr(shards, kind)),
            times=(began_s, time.monotonic()),
            **fields,
        )
        with pool.borrow(**device_of(context), backend=template.definition.backend) as trainer:
            return [trainer.ask(request)]


class Shards:
    """The files of a task's partition; a context manager that deletes them."""

    def __init__(self, pool: TrainerPool, *, worker: int) -> None:
        """Choose folders without creating them."""
        self._worker = worker
        folder = pool.scratch()
        self.train, self.validation = Path(f"{folder}-train"), Path(f"{folder}-validation")

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_: object) -> None:
        # The trainer deletes the files after mapping them; this covers failures.
        for folder in (self.train, self.validation):
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, elements: Iterable[Element]) -> int:
        """Stream the partition to the files, a chunk at a time; return the number of examples."""
        with (
            ShardWriter(self.train, worker=self._worker) as train,
            ShardWriter(self.validation, worker=self._worker) as validation,
        ):
            writers = {"train": train, "validation": validation}
            for key, kind, chunk in elements:
                writers[kind].append(from_bytes(chunk), key=key)
        return train.rows + validation.rows
