"""Training with Spark jobs only, one per averaging, for executors that cannot open ports."""

import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright._open_files import (
    OPEN_FILES,
    ensure_open_files,
    out_of_files,
    out_of_space,
)
from sparkwright.cluster.job_errors import translated
from sparkwright.cluster.jobs import storage_level
from sparkwright.cluster.session_end import session_error, unless_ended
from sparkwright.cluster.shared_bytes import SharedBytes
from sparkwright.errors import SparkSessionError
from sparkwright.masters import Histograms, ParameterAveragingTrainingMaster
from sparkwright.masters.histograms import HistogramSchedule
from sparkwright.networks import pack_arrays
from sparkwright.runs.begin import RunBeginning
from sparkwright.runs.launching import settings_of
from sparkwright.runs.outcome import Outcome, held, tidy
from sparkwright.runs.record import RunRecord
from sparkwright.runs.run_checkpoints import RunCheckpoints
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import error_of
from sparkwright.workers.histograms import ChosenVariables, HistogramsTaken
from sparkwright.workers.protocol import Progress
from sparkwright.workers.requests import RoundRequest, ValidateRequest
from sparkwright.workers.work import share_out

from ._round_jobs import RoundJobs, RoundSum, validated
from ._tasks import round_task
from .gpus import on_gpus
from .launcher import SparkLauncher

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkRoundsEngine:
    """Trains by broadcasts, rounds and tree-aggregation; equal to the ring up to rounding."""

    def __init__(
        self, spark: "SparkSession", launcher: SparkLauncher, beginning: RunBeginning
    ) -> None:
        self._spark, self._run, self._launcher = spark, beginning.id, launcher
        master = beginning.master
        assert isinstance(
            master, ParameterAveragingTrainingMaster
        )  # the only master with Spark rounds
        self._master, self._definition = master, beginning.definition
        self._start, self._epochs, self._model = beginning.start, beginning.epochs, beginning.model
        self._callbacks = beginning.callbacks
        self._initial_epoch, self._checkpoints = beginning.initial_epoch, RunCheckpoints(beginning)
        self._ending = False  # early
        self._histograms = beginning.histograms or Histograms(every=None)
        self._schedule = HistogramSchedule(self._histograms.every)
        self._histograms_asked = threading.Event()
        self._jobs = RoundJobs(spark, stall_timeout_s=master.mesh.stall_timeout_s)

    def run(self, record: RunRecord) -> Outcome:
        """Train and return the outcome, including the error if there was one."""
        launcher, master = self._launcher, self._master
        ensure_open_files(OPEN_FILES + launcher.workers)
        vector = self._start.vector()
        progress = Progress.first(
            workers=launcher.workers,
            iterations=self._start.iterations,
            epoch=self._initial_epoch,
        )
        extras = pack_arrays(self._start.extras())
        counters: bytes | None = None
        error: BaseException | None = None
        elements: Any = None
        try:
            rows = launcher.prepare(record.times.enter)
            assert rows is not None  # of data in partitions
            record.noted(launcher.facts)
            plan = master.plan(rows, epochs=self._epochs)
            checkpoints = self._checkpoints
            checkpoints.open(record)
            checkpoints.fit(rows)
            checkpoints.show(record, plan)
            if (resume := checkpoints.resume) is not None:
                progress, vector = resume.progress, resume.vector
            record.state_changed("starting", f"waiting for {launcher.workers} workers")
            assert launcher.layout is not None
            elements = launcher.layout.elements
            if master.storage_level is not None:
                elements.persist(storage_level(master.storage_level))
            for worker, count in enumerate(rows):
                record.worker_joined(worker, host="", rows=count)
            progress = self._callbacks.begin(progress, steps=sum(plan.minibatches))
            written_s, written = time.monotonic(), progress.averagings
            while progress.epoch < self._epochs and not self._is_over:
                progress = progress.with_epoch_opened(plan.minibatches)
                if progress.todo:
                    vector, progress, found = self._round(
                        record, elements, vector, extras, progress
                    )
                    counters, extras = found or counters, found + extras[len(found) :]
                if self._is_over:
                    break
                if not progress.todo:
                    progress = progress.after_epoch()
                    if launcher.validates:
                        progress = self._validate(record, elements, vector, extras, progress)
                progress = self._call_back(record, vector, counters, progress)
                since = progress.averagings - written
                due = master.checkpoint and master.checkpoint.due(
                    since, time.monotonic() - written_s
                )
                if due:
                    checkpoints.write(record, progress, vector, extras)
                    written_s, written = time.monotonic(), progress.averagings
        except BaseException as problem:
            tidy(launcher.cancel)
            error = None if self._jobs.stopping.is_set() else self._explained(problem, progress)
        record.times.enter(PhaseCode.FINISH)

        def unpersist() -> None:
            if elements is not None and master.storage_level is not None:
                with unless_ended(self._spark):
                    elements.unpersist()

        tidy(self._checkpoints.close, unpersist, launcher.clean_up)
        return Outcome(
            vector=vector if progress.averagings else None,
            counters=counters,
            progress=progress,
            stopped=self._jobs.stopping.is_set(),
            error=error,
        )

    def stop(self) -> None:
        """Stop after the current averaging, or `stall_timeout_s`; immediately before the first."""
        self._jobs.stop()
        if not self._jobs.begun:
            self._launcher.cancel()

    def cancel(self) -> None:
        """Stop immediately and discard the current round."""
        self._jobs.stopping.set()
        self._launcher.cancel()
        self._jobs.cancel()

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; return False before training starts."""
        if self._jobs.begun:
            self._histograms_asked.set()
        return self._jobs.begun

    # -- private ----------------------------------------------------------------------------

    @property
    def _is_over(self) -> bool:
        return self._ending or self._jobs.stopping.is_set()

    def _explained(self, problem: BaseException, progress: Progress) -> BaseException | None:
        """Return the error of the run for a problem, with the state of the model."""
        if (missing := out_of_files(problem) or out_of_space(problem)) is not None:
            return missing
        if (ended := session_error(self._spark, problem)) is not None:
            reached = progress if progress.averagings else None
            return SparkSessionError(f"{ended} {held(reached)}")
        return self._callbacks.explained(translated(problem))

    def _shared(self, vector: Any) -> bytes:
        """Return the averaged state in `vector`, without the velocity."""
        return vector[: self._start.size].tobytes()

    def _call_back(
        self, record: RunRecord, vector: Any, counters: bytes | None, progress: Progress
    ) -> Progress:
        callbacks, moment = self._callbacks, (progress.epoch, progress.round)
        if not (callbacks.given and progress.awaits_callbacks(callbacks.frequency)):
            return progress
        state = Outcome(vector=vector, counters=counters, progress=progress)
        ends, rate = callbacks.called(moment, state, record)
        self._ending = self._ending or ends
        return progress.after_callbacks(rate)

    def _validate(
        self, record: RunRecord, elements: Any, vector: Any, extras: bytes, progress: Progress
    ) -> Progress:
        template = ValidateRequest(
            definition=self._definition,
            run=self._run,
            shard="",
            settings=settings_of(self._master, epochs=self._epochs),
            vector=b"",
            extras=extras,
        )
        record.times.enter(PhaseCode.VALIDATE)
        run_job = partial(self._jobs.run, record)
        found = self._jobs.share(
            self._shared(vector),
            lambda shared: validated(elements, template, shared, run_job, epoch=progress.epoch),
        )
        if found is not None:
            record.validated(epoch=progress.epoch, loss=found[0], metrics=found[1])
        return replace(progress, validated=progress.epoch)

    def _round(
        self, record: RunRecord, elements: Any, vector: Any, extras: bytes, progress: Progress
    ) -> tuple[Any, Progress, bytes]:
        """Run one Spark job; return the average, the progress and worker 0's counters."""
        template = RoundRequest(
            definition=self._definition,
            run=self._run,
            shard="",
            settings=replace(
                settings_of(self._master, epochs=self._epochs),
                rows=tuple(worker.rows for worker in record.status().workers),
                earlier=self._checkpoints.earlier,
            ),
            epoch=progress.epoch,
            share=None,
            first=progress.round == 0,
            iterations=progress.iterations,
            vector=b"",
            extras=extras,
            learning_rate=progress.learning_rate,
        )
        began_s, times = time.monotonic(), record.times
        times.enter(PhaseCode.SPLIT)
        frequency = self._master.frequency_in(progress.epoch)
        quotas = dict.fromkeys(range(self._launcher.workers), frequency)
        shares = share_out(progress.todo, epoch=progress.epoch, quotas=quotas, lend=False)
        times.enter(PhaseCode.BROADCAST)
        size, dtype = self._start.size, vector.dtype
        depth = self._master.aggregation_depth

        def aggregated(shared: SharedBytes) -> tuple[float, RoundSum]:
            task, parts = round_task(template, shared, shares), len(shared.parts)
            answers = on_gpus(elements.mapPartitionsWithIndex(task))
            times.leave()
            asked_s = time.monotonic()
            for worker in range(self._launcher.workers):
                times.expected(worker)
            return asked_s, self._jobs.run(
                record,
                lambda: RoundSum.of(answers, dtype, depth=depth, parts=parts),
                f"train {self._run}, averaging {progress.averagings + 1}",
            )

        asked_s, total = self._jobs.share(self._shared(vector), aggregated)
        received_s = time.monotonic()
        ends_s = [
            times.returned(*each, asked_s=asked_s, received_s=received_s) for each in total.spans
        ]
        # After the last task, Spark only aggregates.
        mapped_s = min(received_s, max(ends_s, default=received_s))
        times.ran(PhaseCode.MAP_PARTITIONS, asked_s, mapped_s)
        times.ran(PhaseCode.AGGREGATE, mapped_s, received_s)
        times.enter(PhaseCode.PROCESS_PARAMS)
        if total.failures:
            raise error_of(total.failures[0])
        seconds = time.monotonic() - began_s
        done = {
            fields["worker"]: (len(fields["losses"]), sum(fields["examples"]))
            for fields in total.fields
        }
        iterations = max(fields["iterations"] for fields in total.fields)
        if weight := sum(fields["weight"] for fields in total.fields):
            before, vector = vector, (total.vector / weight).astype(dtype)
            if (outer := self._master.outer_optimizer) is not None:
                vector = np.append(vector, np.empty_like(before[size:]))
                changed = slice(self._start.state.trainable_size)
                outer.step(before[changed], vector[changed], before[size:], vector[size:])
            self._take_histograms(record, vector, before, progress, done)
        progress = progress.after_round(shares, done, iterations=iterations)
        for fields in sorted(total.fields, key=lambda fields: fields["worker"]):
            block = {
                "epoch": progress.epoch + 1,
                "round": progress.round,
                "count": len(fields["losses"]),
                "age_s": 0.0,
                "seconds": seconds,
                "metrics": fields["metrics"],
                "readings": fields["readings"],
                "averagings": progress.averagings,
            }
            losses = np.array(fields["losses"], np.float32)
            examples = np.array(fields["examples"], np.int32)
            record.rows_trained(fields["worker"], [block], losses, examples)
            record.worker_placed(fields["worker"], **fields["place"])
            self._ending = self._ending or self._callbacks.ends_at(losses)
        return vector, progress, next(iter(total.counters), b"")

    def _take_histograms(
        self,
        record: RunRecord,
        after: Any,
        before: Any,
        progress: Progress,
        done: Mapping[int, tuple[int, int]],
    ) -> None:
        """Record histograms on the driver if they are due."""
        step, options = progress.steps[0] + done.get(0, (0, 0))[0], self._histograms
        if not self._schedule.is_due(step, asked=self._histograms_asked.is_set()):
            return
        self._histograms_asked.clear()
        self._schedule.record(step)
        began_s, variables = time.monotonic(), ChosenVariables(self._model, options)
        found = variables.histograms(variables.cut(after), variables.cut(before))
        record.histograms.add(
            HistogramsTaken(
                step=step,
                epoch=progress.epoch + 1,
                minibatches=max(count for count, _ in done.values()),
                seconds=time.monotonic() - began_s,
                found=found,
                notes=('Activations need `communication="ring"` or "driver".',)
                if "activations" in options.of
                else (),
            )
        )
