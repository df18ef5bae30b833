"""The Spark jobs of a run with `communication="spark"`, one at a time, and their answers."""

import functools
import math
import operator
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from sparkwright._open_files import await_free_file, out_of_files, out_of_space
from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import SparkJob
from sparkwright.cluster.session_end import unless_ended
from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.errors import RunTimeoutError
from sparkwright.runs.outcome import tidy
from sparkwright.runs.record import RunRecord
from sparkwright.workers.failure import error_of
from sparkwright.workers.protocol import Failure
from sparkwright.workers.requests import Answer, ValidateRequest

from ._tasks import validation_task
from .gpus import on_gpus

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.runs.timeline_record import Process
    from sparkwright.timeline.clocks import ClockState
    from sparkwright.timeline.spans import SpanBlock

# How long a run waits for a free file descriptor, or space, of the driver.
_FREE_FILE_TIMEOUT_S = 60.0

Result = TypeVar("Result")


class RoundJobs:
    """Runs jobs that read shared bytes, and notices those that hang."""

    def __init__(self, spark: "SparkSession", *, stall_timeout_s: float) -> None:
        """Jobs that last longer than `stall_timeout_s` are shown, or cancelled after a stop."""
        self.stopping = threading.Event()
        self._spark, self._timeout_s = spark, stall_timeout_s
        self._job: SparkJob | None = None
        self._stopped_s = -math.inf
        self._last_s = 0.0  # duration of the last job

    @property
    def begun(self) -> bool:
        """Whether there has been a job."""
        return self._job is not None

    def stop(self) -> None:
        """Let the current job end, and cancel it if it hangs."""
        self._stopped_s = time.monotonic()
        self.stopping.set()

    def cancel(self) -> None:
        """Cancel the current job."""
        self.stopping.set()
        if self._job is not None:
            self._job.cancel()

    def share(self, content: bytes, jobs: Callable[[SharedBytes], Result]) -> Result:
        """Run jobs that read `content`.

        They are repeated if the driver could open or write no file, once it can.
        """
        deadline_s = 0.0
        while True:
            try:
                shared = SharedBytes.of(context_of(self._spark), content)
                try:
                    return jobs(shared)
                finally:
                    tidy(partial(self._destroy, shared))
            except BaseException as problem:
                # From the first failure on: jobs may need more files than the one that is free.
                deadline_s = deadline_s or time.monotonic() + _FREE_FILE_TIMEOUT_S
                left_s = deadline_s - time.monotonic()
                may_pass = out_of_files(problem) or out_of_space(problem)
                if may_pass is None or not await_free_file(left_s, self.stopping):
                    raise

    def run(self, record: RunRecord, action: Callable[[], Result], description: str) -> Result:
        """Run one job and return its result."""
        self._job = SparkJob(self._spark, action, description=description)
        began_s, shown = time.monotonic(), False

        def hung() -> BaseException | None:
            """Show once that the job takes too long; return an error if the run is to stop."""
            nonlocal shown
            now_s = time.monotonic()
            if self.stopping.is_set() and now_s - max(began_s, self._stopped_s) > self._timeout_s:
                return RunTimeoutError(f"the Spark job to {description} did not end in time.")
            if not shown and now_s - began_s > max(self._timeout_s, 2 * self._last_s):
                shown = True
                record.stood_still(now_s - began_s, f"its job: {description}", stacks=False)
            return None

        try:
            return self._job.wait(hung)
        finally:
            self._last_s = time.monotonic() - began_s
            if shown:
                record.stood_still(0, "")

    def _destroy(self, shared: SharedBytes) -> None:
        with unless_ended(self._spark):
            shared.destroy()


RunJob = Callable[[Callable[[], Any], str], Any]


def validated(
    elements: Any, template: ValidateRequest, vector: SharedBytes, run_job: RunJob, *, epoch: int
) -> tuple[float, dict[str, float]] | None:
    """Return mean loss and metrics of all validation examples; None if there are none."""

    def answers(template: ValidateRequest, *, only: int | None = None) -> list[Answer]:
        task = validation_task(template, vector, only=only)
        found = on_gpus(elements.mapPartitionsWithIndex(task))
        given: list[Answer] = run_job(found.collect, f"validate {template.run}, epoch {epoch}")
        for answer in given:
            if (failure := answer.failure(worker=-1)) is not None:
                raise error_of(failure)
        return given

    found = answers(template)
    if not found:
        return None
    sums = np.sum([np.frombuffer(answer.payload) for answer in found], axis=0)
    metrics: dict[str, float] = found[0].fields["metrics"]
    # Keras computes metrics from the sums of all workers, so a second job asks one of them.
    if len(found) > 1 and metrics:
        total = replace(template, sums=tuple(sums.tolist()))
        (answer,) = answers(total, only=found[0].fields["worker"])
        metrics = answer.fields["metrics"]
    return float(sums[0] / sums[1]), metrics


class RoundSum(NamedTuple):
    """The aggregate of a round: the sum of n_w x_w, and the reports of the workers."""

    vector: Any = 0.0
    fields: tuple[dict[str, Any], ...] = ()
    failures: tuple[Failure, ...] = ()
    counters: tuple[bytes, ...] = ()
    spans: "tuple[tuple[int, Process, SpanBlock, ClockState], ...]" = ()

    @staticmethod
    def of(answers: Any, dtype: Any, *, depth: int, parts: int) -> "RoundSum":
        """Add the answers of all tasks, given as an RDD.

        Vectors of several parts are added part by part, each in one partition: as one element, a
        vector would be in the heaps of executors and driver several times.
        """
        add = RoundSum.add(dtype)
        if parts == 1:
            return answers.treeAggregate(None, add, RoundSum.merge, depth)
        cut = answers.flatMap(lambda answer: add(None, answer).cut(parts))
        moved = cut.repartitionAndSortWithinPartitions(parts, operator.itemgetter(0))
        sums = moved.mapPartitions(
            lambda pairs: [functools.reduce(RoundSum.merge, (each for _, each in pairs))]
        )
        first, *others = sums.toLocalIterator()
        return first._replace(vector=np.hstack([each.vector for each in (first, *others)]))

    def cut(self, parts: int) -> "Iterator[tuple[tuple[int, int], RoundSum]]":
        """Yield parts of one worker's answer, each after its number and the worker's."""
        worker = self.fields[0]["worker"] if self.fields else -1
        vector = np.broadcast_to(self.vector, max(np.size(self.vector), parts))
        for part, piece in enumerate(np.array_split(vector, parts)):
            rest = RoundSum() if part else self
            yield (part, worker), rest._replace(vector=piece)

    @staticmethod
    def add(dtype: Any) -> Any:
        """Return a function that adds one worker's answer to the aggregate."""

        def add(total: "RoundSum | None", answer: Any) -> "RoundSum | None":
            if (failure := answer.failure(worker=-1)) is not None:
                found = RoundSum(failures=(failure,))
            else:
                fields, cut = answer.fields, answer.fields["vector_bytes"]
                raw, counters = answer.payload[:cut], answer.payload[cut:]
                place, count = (
                    fields["place"],
                    fields["weight"],
                )  # 0 if the parameters are not finite
                process = place["host"], place["pid"]
                found = RoundSum(
                    vector=np.frombuffer(raw, dtype) * dtype.type(count) if count else 0.0,
                    fields=(fields,),
                    counters=(counters,) if counters else (),
                    spans=((fields["worker"], process, *answer.result),)
                    if answer.result is not None
                    else (),
                )
            return RoundSum.merge(total, found)

        return add

    @staticmethod
    def merge(one: "RoundSum | None", other: "RoundSum | None") -> "RoundSum | None":
        """Combine two aggregates; None is the empty aggregate."""
        if one is None or other is None:
            return other if one is None else one
        pairs: Any = zip(one, other, strict=True)
        return RoundSum(*(mine + theirs for mine, theirs in pairs))
