"""One averaging of a worker's state with the others', waited for or beside further minibatches."""

import struct
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group, Progress
from sparkwright.workers.work import Span

from ._flat import sample_of, update_ratio
from ._member import RunMember, exchanged
from ._minibatches import RoundDone
from .requests import WorkerSettings


class Meta(NamedTuple):
    """What each worker says of its share before an averaging."""

    minibatches: int
    examples: int
    stopping: bool
    checkpoint: bool  # after this averaging; with a delay, after the next one
    copy: bool  # likewise, always after this one, and for the driver's memory only
    finite: bool  # whether its parameters are; if not, its part is not averaged
    measures: bool  # all do so in the same round, or each would make the others wait in another
    iterations: int
    seconds: float  # computing


_META = struct.Struct("<qq?????qd")


@dataclass(kw_only=True, slots=True)
class Averaging:
    """One round of a worker, and the averaging that ends it.

    Attributes:
        before: what counted when the round began.
        planned: what will count if all workers do their shares. Once the next epoch has begun,
            that is part of it.
        shares: worker -> what it was to train.
        done: what this worker has trained.
        meta: what it says of that.
        began_s: when the round began, by the monotonic clock.
        trained_s: when this worker had trained its share.
        metas: worker -> what it said; known once all have met.
        met_s: when they had.
        averaged_s: when the average was there.
        changed: whether there is a new average.
    """

    before: Progress
    planned: Progress
    shares: Mapping[int, Span]
    done: RoundDone
    meta: Meta
    began_s: float
    trained_s: float
    metas: dict[int, Meta] = field(default_factory=dict[int, Meta])
    met_s: float = 0.0
    averaged_s: float = 0.0
    changed: bool = False

    @property
    def after(self) -> Progress:
        """What counts after it, now that all have met."""
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
        """Whether every worker did its share; who stops in between does not."""
        did = {worker: meta.minibatches for worker, meta in self.metas.items() if meta.minibatches}
        return did == {worker: span.size for worker, span in self.shares.items()}


class Averager:
    """Averages with the others, one averaging at a time.

    With `averaging_delay` a thread of its own does, from a copy of the state, while the training
    thread goes on. Nothing else may use the ring from `begin` to the end of `finish`.
    """

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        self._settings, self._member = settings, member
        self._replica, self._phases = member.replica, member.phases
        self.is_delayed = settings.master.averaging_delay > 0
        # This worker's state at the end of the round; then how far it is from the average.
        self._copy = np.empty(member.size if self.is_delayed else 0, member.average.dtype)
        self._thread = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-averaging")
            if self.is_delayed
            else None
        )
        self._future: Future[None] | None = None

    def close(self) -> None:
        """End the thread; the ring must have been left."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)

    def abandon(self, ring: Ring, averaging: Averaging) -> bool:
        """Leave `ring`; whether `averaging` was complete already, and so is kept."""
        if self._future is None:
            return False
        ring.abort()
        future, self._future = self._future, None
        if future.exception() is not None:
            return False
        self._member.keep_average(averaging.after, changed=averaging.changed)
        return True

    def begin(self, ring: Ring, group: Group, averaging: Averaging) -> None:
        """Start to average, and without a delay do it.

        Raises:
            NetworkError: if the ring breaks.
        """
        if self._thread is None:
            self._average(ring, group, averaging)
            return
        self._replica.state.read(updater=False, out=self._copy)
        self._phases.since(PhaseCode.AVERAGE, averaging.trained_s)
        self._future = self._thread.submit(self._average, ring, group, averaging)

    def finish(self, averaging: Averaging, *, trained: bool) -> None:
        """Wait for the average, keep it, and apply it to the replica.

        Args:
            averaging: that was begun.
            trained: whether the replica has been trained since then.

        Raises:
            NetworkError: if the ring breaks.
        """
        averaged_s = averaging.averaged_s
        if self._future is not None:
            asked_s = time.monotonic()
            future, self._future = self._future, None
            future.result()
            met_s = max(asked_s, averaging.met_s)
            self._phases.add(PhaseCode.WAIT, asked_s, met_s)
            averaged_s = self._phases.since(PhaseCode.AVERAGE, met_s)
        self._member.keep_average(averaging.after, changed=averaging.changed)
        self._apply(averaging, trained=trained)
        if averaging.changed:
            self._phases.since(PhaseCode.APPLY, averaged_s)

    # -- on either thread -------------------------------------------------------------------

    def _average(self, ring: Ring, group: Group, averaging: Averaging) -> None:
        """Meet the others, and put the new average into the member's `work`."""
        member, outer = self._member, self._settings.master.outer_optimizer
        metas = exchanged(ring, averaging.meta, _META)
        averaging.metas = {s.worker: m for s, m in zip(group.seats, metas, strict=True)}
        averaging.met_s = averaging.averaged_s = time.monotonic()
        if not self.is_delayed:
            self._phases.add(PhaseCode.WAIT, averaging.trained_s, averaging.met_s)
        weights = [meta.minibatches if meta.finite else 0 for meta in metas]
        averaging.changed = member.mean(ring, weights, self._copy if self.is_delayed else None)
        done = averaging.done
        if any(meta.measures for meta in metas) and done.readings and averaging.meta.finite:
            done.readings["update_ratio"] = self._update_ratio(ring, weights)
        if not averaging.changed:
            return
        work = member.work[: member.size]
        if ring.size > 1:
            if member.rounded is None:
                ring.all_reduce(work)
            else:
                share = weights[ring.rank] / sum(weights)
                member.rounded.reduce(ring, member.average, work, share=share)
            phase = PhaseCode.OVERLAP if self.is_delayed else PhaseCode.AVERAGE
            averaging.averaged_s = self._phases.since(phase, averaging.met_s)
        if outer is not None:
            member.take_outer_step(outer)
        if self.is_delayed:
            np.subtract(self._copy, work, out=self._copy)

    def _update_ratio(self, ring: Ring, weights: list[int]) -> float:
        """Of what this worker did in the round; its part of the mean is in `work`."""
        mine, size = weights[ring.rank], self._replica.state.trainable_size
        after = sample_of([self._member.work[:size]])
        after *= sum(weights) / mine
        return update_ratio(sample_of([self._member.average[:size]]), after, minibatches=mine)

    # -- on the training thread -------------------------------------------------------------

    def _apply(self, averaging: Averaging, *, trained: bool) -> None:
        """Change the replica as the new average asks."""
        member, replica, mine = self._member, self._replica, averaging.meta
        metas = averaging.metas.values()
        # The minibatches since then, if any, count on from the most of any worker.
        if behind := max(meta.iterations for meta in metas) - mine.iterations:
            replica.iterations += behind
        average, is_finite = member.average[: member.size], mine.finite
        if not averaging.changed:
            if all(meta.finite for meta in metas):  # nobody had anything to train
                return
            is_finite = False  # no part could be averaged: all continue from the last average
            replica.write(average)
        elif len(metas) > 1 or self._settings.master.outer_optimizer is not None:
            if trained and is_finite:
                replica.state.change(self._copy, average)
            else:
                replica.write(average)
        if member.updater == "reset" or (member.updater == "local" and not is_finite):
            replica.reset_updater()


def counted_as_planned(progress: Progress, shares: Mapping[int, Span]) -> Progress:
    """What counts after a round in which every worker does its share; examples are not known."""
    counts = {worker: (span.size, 0) for worker, span in shares.items()}
    return progress.after_round(shares, counts, iterations=progress.iterations)
