"""Code that runs in a Spark task: stream the partition to files, call a trainer, report."""

import contextlib
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, get_args

from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.data import from_bytes
from sparkwright.errors import DataError, WorkerError
from sparkwright.runs.poison import REMEDY, place_of
from sparkwright.workers.failure import failure_of
from sparkwright.workers.folders import remove, scratch_root
from sparkwright.workers.pool import TrainerPool, driver_secret
from sparkwright.workers.requests import (
    Answer,
    RoundRequest,
    TrainRequest,
    ValidateRequest,
    WorkerSettings,
    fill_in,
)
from sparkwright.workers.shard import ShardWriter, disk_errors
from sparkwright.workers.work import Span

from .gpus import device_of

Kind = Literal["train", "validation"]
# Element of a training task: (order key, kind, Arrow bytes).
Element = tuple[tuple[int, ...], Kind, bytes]


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
        from pyspark import TaskContext

        began_s, index = time.monotonic(), first + index
        context: Any = TaskContext.get()
        pool = TrainerPool(owner=os.getppid(), secret=secret)
        try:
            with Shards(pool, worker=index) as shards:
                # Write before borrowing a trainer: the data may be predictions of another network.
                shards.write(elements)
                request = fill_in(
                    template,
                    worker=index,
                    # Unlike its number, an attempt's id also increases when Spark reruns the stage.
                    attempt=context.taskAttemptId(),
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
    template: RoundRequest, vector: SharedBytes, shares: Mapping[int, Span]
) -> Callable[[int, Iterable[Element]], list[Answer]]:
    """Return a function for `mapPartitionsWithIndex` that trains one round of its partition."""
    secret = driver_secret()

    def task(index: int, elements: Iterable[Element]) -> list[Answer]:
        given = replace(template, share=shares.get(index))
        return _asked(given, vector, index, elements, "train", secret=secret)

    return task


def validation_task(
    template: ValidateRequest, vector: SharedBytes, *, only: int | None = None
) -> Callable[[int, Iterable[Element]], list[Answer]]:
    """Return a function for `mapPartitionsWithIndex` that scores its partition."""
    secret = driver_secret()

    def task(index: int, elements: Iterable[Element]) -> list[Answer]:
        if only not in (None, index):
            return []
        return _asked(template, vector, index, elements, "validation", secret=secret)

    return task


def _asked(
    template: RoundRequest | ValidateRequest,
    vector: SharedBytes,
    index: int,
    elements: Iterable[Element],
    kind: Kind,
    *,
    secret: bytes,
) -> list[Answer]:
    """Ask a trainer with the examples of `kind`; empty if there is nothing to validate."""
    from pyspark import TaskContext

    began_s, content = time.monotonic(), b"".join(vector)
    context: Any = TaskContext.get()
    pool = TrainerPool(owner=os.getppid(), secret=secret)
    with Shards(pool, worker=index) as shards:
        try:
            rows = shards.write(elements, [kind])
        except DataError as error:  # a retry would fail again
            return [Answer.of_error(error)]
        if kind == "validation" and not rows:
            return []
        request = replace(
            template,
            settings=replace(template.settings, worker=index, attempt=context.taskAttemptId()),
            shard=str(getattr(shards, kind)),
            vector=content,
            times=(began_s, time.monotonic()),
        )
        with pool.borrow(**device_of(context), backend=template.definition.backend) as trainer:
            try:
                return [trainer.ask(request)]
            except WorkerError as error:
                raise _placed(error, request.settings) from None


def _placed(error: WorkerError, settings: WorkerSettings[Any]) -> WorkerError:
    """Name in the error what a trainer was training when its process ended."""
    if error.at is None:
        return error
    rows, master, earlier = settings.rows, settings.master, settings.earlier
    place = place_of(Span(*error.at), rows=rows, master=master, earlier=earlier)
    reason = f"{place} ended each process that trained its rows; last: {error.reason} {REMEDY}"
    return WorkerError(worker=error.worker, host=error.host, reason=reason)


class Shards:
    """The files of a task's partition; a context manager that deletes them."""

    def __init__(self, pool: TrainerPool, *, worker: int) -> None:
        """Make their folder."""
        self._worker = worker
        with disk_errors(scratch_root() or pool.folder, worker=worker):
            self._folder = pool.scratch()
        self.train, self.validation = self._folder / "train", self._folder / "validation"

    def __enter__(self) -> "Shards":
        return self

    def __exit__(self, *_: object) -> None:
        # The trainer deletes the files after mapping them; this covers failures.
        remove(self._folder)

    def write(self, elements: Iterable[Element], kinds: Iterable[Kind] = get_args(Kind)) -> int:
        """Stream elements of these kinds to files, a chunk at a time; return their examples."""
        with contextlib.ExitStack() as stack:
            writers = {
                kind: stack.enter_context(ShardWriter(getattr(self, kind), worker=self._worker))
                for kind in kinds
            }
            for key, kind, chunk in elements:
                if kind in writers:
                    writers[kind].append(from_bytes(chunk), key=key)
        return sum(writer.rows for writer in writers.values())
