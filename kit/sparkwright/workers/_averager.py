"""Averaging of a worker's state with the others, and what it reports of its rounds."""

import math
import struct
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.checkpointing import CopySchedule
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group, Progress
from sparkwright.workers.work import Span

from ._flat import MEASURE_EVERY_S, sample_of, update_ratio
from ._member import RunMember
from ._minibatches import RoundDone
from .requests import WorkerSettings


class Meta(NamedTuple):
    """A worker's report on its share, exchanged before an averaging."""

    minibatches: int
    examples: int
    stopping: bool
    checkpoint: bool  # after this averaging; with a delay, after the next one
    copy: bool  # a checkpoint for the driver's memory only, always after this averaging
    finite: bool  # whether its parameters are finite; if not, its part is not averaged
    measures: bool  # set by rank 0, so that all workers measure in the same round
    iterations: int
    seconds: float  # computing


_META = struct.Struct("<qq?????qd")


@dataclass(kw_only=True, slots=True)
class Averaging:
    """One round of a worker, and the averaging that ends it; times are monotonic."""

    before: Progress  # at the beginning of the round
    # After the round if all train their whole shares; includes the next epoch once it has begun.
    planned: Progress
    shares: Mapping[int, Span]  # by worker
    done: RoundDone  # of this worker
    meta: Meta  # of this worker
    began_s: float
    trained_s: float  # when this worker finished its share
    metas: dict[int, Meta] = field(default_factory=dict[int, Meta])  # by worker, after the exchange
    met_s: float = 0.0  # time of the exchange
    averaged_s: float = 0.0  # when the average was complete
    changed: bool = False  # there is a new average

    @property
    def after(self) -> Progress:
        """Progress after the averaging; requires the reports of all workers."""
        actual = self.before.after_round(
            self.shares,
            {worker: (m.minibatches, m.examples) for worker, m in self.metas.items()},
            iterations=max(meta.iterations for meta in self.metas.values()),
        )
        if not self.is_as_planned:
            return actual
        return replace(self.planned, examples=actual.examples, iterations=actual.iterations)

    @property
    def is_as_planned(self) -> bool:
        """Whether every worker trained its whole share."""
        did = {worker: meta.minibatches for worker, meta in self.metas.items() if meta.minibatches}
        return did == {worker: span.size for worker, span in self.shares.items()}


class Averager:
    """Average with the other workers, one averaging at a time."""

    # With `averaging_delay`, a thread averages a copy of the state while training continues.
    # Nothing else may use the ring between `begin` and the end of `finish`.

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        self._settings, self._member, self._kept = settings, member, member.kept
        self._replica, self._phases = member.replica, member.phases
        self.is_delayed = settings.master.averaging_delay > 0
        # This worker's state at the end of the round; later its difference from the average.
        self._copy = np.empty(self._kept.size if self.is_delayed else 0, self._kept.average.dtype)
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-averaging")
            if self.is_delayed
            else None
        )
        self._future: Future[None] | None = None

    def close(self) -> None:
        """Stop the thread, after leaving the ring."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def abandon(self, ring: Ring, averaging: Averaging) -> bool:
        """Leave `ring`; return whether `averaging` was already complete and is kept."""
        if self._future is None:
            return False
        ring.abort()
        future, self._future = self._future, None
        if future.exception() is not None:
            return False
        self._kept.keep(averaging.after, changed=averaging.changed)
        return True

    def begin(self, ring: Ring, group: Group, averaging: Averaging) -> None:
        """Start averaging; without a delay, finish the exchange."""
        if self._thread is None:
            self._average(ring, group, averaging)
            return
        self._replica.state.read(updater=False, out=self._copy)
        self._phases.since(PhaseCode.AVERAGE, averaging.trained_s)
        self._future = self._thread.submit(self._average, ring, group, averaging)

    def finish(self, averaging: Averaging, *, trained: bool) -> None:
        """Wait for the average, keep it, and apply it to the replica; `trained`: since `begin`."""
        averaged_s = averaging.averaged_s
        if self._future is not None:
            asked_s = time.monotonic()
            future, self._future = self._future, None
            future.result()
            met_s = max(asked_s, averaging.met_s)
            self._phases.add(PhaseCode.WAIT, asked_s, met_s)
            averaged_s = self._phases.since(PhaseCode.AVERAGE, met_s)
        self._kept.keep(averaging.after, changed=averaging.changed)
        self._apply(averaging, trained=trained)
        if averaging.changed:
            self._phases.since(PhaseCode.APPLY, averaged_s)

    # -- on either thread -------------------------------------------------------------------

    def _average(self, ring: Ring, group: Group, averaging: Averaging) -> None:
        """Exchange reports and compute the new average in `KeptState.work`."""
        kept, outer = self._kept, self._settings.master.outer_optimizer
        metas = ring.exchanged(averaging.meta, _META)
        averaging.metas = {s.worker: m for s, m in zip(group.seats, metas, strict=True)}
        averaging.met_s = averaging.averaged_s = time.monotonic()
        if not self.is_delayed:
            self._phases.add(PhaseCode.WAIT, averaging.trained_s, averaging.met_s)
        weights = [meta.minibatches if meta.finite else 0 for meta in metas]
        averaging.changed = kept.mean(ring, weights, self._copy if self.is_delayed else None)
        done = averaging.done
        if any(meta.measures for meta in metas) and done.readings and averaging.meta.finite:
            done.readings["update_ratio"] = self._update_ratio(ring, weights)
        if not averaging.changed:
            return
        work = kept.work[: kept.size]
        if ring.size > 1:
            if kept.rounded is None:
                ring.all_reduce(work)
            else:
                share = weights[ring.rank] / sum(weights)
                kept.rounded.reduce(ring, kept.average, work, share=share)
            phase = PhaseCode.OVERLAP if self.is_delayed else PhaseCode.AVERAGE
            averaging.averaged_s = self._phases.since(phase, averaging.met_s)
        if outer is not None:
            kept.take_outer_step(outer)
        if self.is_delayed:
            np.subtract(self._copy, work, out=self._copy)

    def _update_ratio(self, ring: Ring, weights: list[int]) -> float:
        """Return the update ratio of this worker's round; `work` holds its part of the mean."""
        mine, size = weights[ring.rank], self._replica.state.trainable_size
        after = sample_of([self._kept.work[:size]])
        after *= sum(weights) / mine
        return update_ratio(sample_of([self._kept.average[:size]]), after, minibatches=mine)

    # -- on the training thread -------------------------------------------------------------

    def _apply(self, averaging: Averaging, *, trained: bool) -> None:
        kept, replica, mine = self._kept, self._replica, averaging.meta
        metas = averaging.metas.values()
        # Minibatches trained since then are added to the maximum over workers.
        if behind := max(meta.iterations for meta in metas) - mine.iterations:
            replica.state.set_iterations(replica.state.iterations + behind)
        average, is_finite = kept.average[: kept.size], mine.finite
        if not averaging.changed:
            if all(meta.finite for meta in metas):  # no worker had data to train
                return
            is_finite = False  # no finite part: all workers continue from the last average
            replica.state.write(average)
        elif len(metas) > 1 or self._settings.master.outer_optimizer is not None:
            if trained and is_finite:
                replica.state.change(self._copy, average)
            else:
                replica.state.write(average)
        if kept.updater == "reset" or (kept.updater == "local" and not is_finite):
            replica.reset_updater()


def progress_if_all_done(progress: Progress, shares: Mapping[int, Span]) -> Progress:
    """Return the progress after a round if all workers train their shares, without examples."""
    counts = {worker: (span.size, 0) for worker, span in shares.items()}
    return progress.after_round(shares, counts, iterations=progress.iterations)


class RoundReports:
    """Reports, log rows, histograms and checkpoints of one worker's rounds."""

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        self._settings, self._member = settings, member
        self._is_delayed = settings.master.averaging_delay > 0
        self._rounds_since, self._checkpoint_s = 0, time.monotonic()
        self._copies = CopySchedule()
        self._measured_s = -math.inf
        self.writes_next = False  # with a delay: whether a checkpoint follows this round

    def begin(self) -> None:
        """Start with a new group."""
        plan = self._settings.master.checkpoint
        self.writes_next = plan is not None and plan.due(1, 0.0)

    def mine(
        self, done: RoundDone, *, finite: bool, seconds: float, stopping: bool, is_first: bool
    ) -> Meta:
        """Return this worker's report on its share; the first worker's asks for checkpoints."""
        now_s = time.monotonic()
        plan = self._settings.master.checkpoint if is_first else None
        rounds = self._rounds_since + 1
        if self._is_delayed:  # checkpoints are announced a round ahead
            rounds = 1 if self.writes_next else rounds + 1
        return Meta(
            minibatches=len(done.losses),
            examples=int(done.examples.sum()),
            stopping=stopping,
            checkpoint=plan is not None and plan.due(rounds, now_s - self._checkpoint_s),
            copy=is_first and self._copies.is_due(now_s),
            finite=finite,
            measures=is_first and now_s - self._measured_s >= MEASURE_EVERY_S,
            iterations=self._member.replica.state.iterations,
            seconds=seconds,
        )

    def averaged(self, ring: Ring, group: Group, averaging: Averaging) -> None:
        """Log the round; take histograms and send a checkpoint if these are due."""
        if "update_ratio" in averaging.done.readings:
            self._measured_s = time.monotonic()
        now_s = self.log(averaging)
        self._take_histograms(group, averaging)
        metas = averaging.metas.values()
        self._rounds_since += 1
        write = asked = any(meta.checkpoint for meta in metas)
        if self._is_delayed:
            write, self.writes_next = self.writes_next, asked
        if write:
            self._rounds_since, self._checkpoint_s = 0, now_s
        if write or any(meta.copy for meta in metas):
            self._member.delivery.send_checkpoint(ring, group, write=write)
            sent_s = time.monotonic()
            self._copies.record_copy(sent_s - now_s, now_s=sent_s)

    def log(self, averaging: Averaging) -> float:
        """Log the averaged minibatches; return the monotonic time."""
        now_s, progress = time.monotonic(), averaging.before
        mine = averaging.shares.get(self._settings.worker)
        ended_s = averaging.trained_s if self._is_delayed else now_s
        self._member.rows.add(
            averaging.done,
            epoch=min(1 + (progress.epoch if mine is None else mine.epoch), self._settings.epochs),
            round=progress.round + 1,
            seconds=ended_s - averaging.began_s,
            averagings=progress.averagings + 1,
        )
        return now_s

    def _take_histograms(self, group: Group, averaging: Averaging) -> None:
        """Compute histograms if they are due; `work` still holds the previous average."""
        kept, histograms = self._member.kept, self._member.histograms
        step = kept.progress.steps[self._settings.worker]
        if averaging.changed and histograms.is_due(group, step):
            histograms.take(
                histograms.sample(kept.average),
                histograms.sample(kept.work),
                step=step,
                epoch=min(averaging.before.epoch + 1, self._settings.epochs),
                minibatches=max(meta.minibatches for meta in averaging.metas.values()),
            )
