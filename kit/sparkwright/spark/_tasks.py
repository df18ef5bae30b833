"""What runs inside a Spark task: stream the partition to files, ask a trainer, report."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from sparkwright.data import from_bytes
from sparkwright.errors import DataError
from sparkwright.workers.failure import failure_of
from sparkwright.workers.pool import TrainerPool, driver_secret
from sparkwright.workers.requests import Answer, RoundRequest, TrainRequest
from sparkwright.workers.shard import ShardWriter

from .gpus import device_of

# (order key, "train" or "validation", Arrow bytes): what a training task reads.
Element = tuple[tuple[int, ...], str, bytes]


def training_task(
    template: TrainRequest, *, first: int = 0
) -> Callable[[int, Iterable[Element]], list[Any]]:
    """A function for `mapPartitionsWithIndex` that trains its partition, as worker `first` + index.

    It returns a list with one failure, or an empty list. No failure is raised: Spark would retry
    it at once, and abort the job in the end, where the coordinator knows whether and when a
    further attempt makes sense. Spark only restarts tasks whose process or executor is gone.
    """
    secret, backend = driver_secret(), template.definition.backend

    def task(index: int, elements: Iterable[Element]) -> list[Any]:
        from dataclasses import replace

        from pyspark import TaskContext

        began_s, index = time.monotonic(), first + index
        context: Any = TaskContext.get()
        pool = TrainerPool(owner=os.getppid(), secret=secret)
        # Unlike the attempt's number, this id also grows when Spark runs the whole stage again.
        settings = replace(template.settings, worker=index, attempt=context.taskAttemptId())
        try:
            with Shards(pool, worker=index) as shards:
                # Before a trainer is borrowed: the data may be what another network predicts.
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
    """A function for `mapPartitionsWithIndex` that trains one round of its partition.

    Args:
        template: the request, to be completed.
        state: a Spark broadcast of (vector, extras, progress, share of each worker).
    """
    secret, backend = driver_secret(), template.definition.backend

    def task(index: int, elements: Iterable[Element]) -> list[Answer]:
        from dataclasses import replace

        from pyspark import TaskContext

        began_s = time.monotonic()
        context: Any = TaskContext.get()
        vector, extras, progress, shares = state.value
        pool = TrainerPool(owner=os.getppid(), secret=secret)
        with Shards(pool, worker=index) as shards:
            try:
                shards.write(elements)
            except DataError as error:  # Spark would only repeat it
                return [Answer.of_error(error)]
            settings = replace(template.settings, worker=index, attempt=context.taskAttemptId())
            request = replace(
                template,
                settings=settings,
                shard=str(shards.train),
                vector=vector,
                extras=extras,
                iterations=progress.iterations,
                epoch=progress.epoch,
                share=shares.get(index),
                first=progress.round == 0,
                times=(began_s, time.monotonic()),
            )
            with pool.borrow(**device_of(context), backend=backend) as trainer:
                return [trainer.ask(request)]

    return task


class Shards:
    """The files of one task's partition, removed when the task is over."""

    def __init__(self, pool: TrainerPool, *, worker: int) -> None:
        """Choose a folder; nothing is created yet."""
        self._worker = worker
        folder = pool.scratch()
        self.train, self.validation = Path(f"{folder}-train"), Path(f"{folder}-validation")

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_: object) -> None:
        # The trainer has removed them as soon as it had mapped them; this is for other ends.
        for folder in (self.train, self.validation):
            shutil.rmtree(folder, ignore_errors=True)

    def write(self, elements: Iterable[Element]) -> None:
        """Stream the partition to the files, never holding more than a chunk."""
        with (
            ShardWriter(self.train, worker=self._worker) as train,
            ShardWriter(self.validation, worker=self._worker) as validation,
        ):
            writers = {"train": train, "validation": validation}
            for key, kind, chunk in elements:
                writers[kind].append(from_bytes(chunk), key=key)
