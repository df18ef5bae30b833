"""What a worker reports of its rounds, to the other workers and then to the driver."""

import math
import time

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.checkpointing import CopySchedule
from sparkwright.mesh.ring import Ring
from sparkwright.workers.protocol import Group

from ._averager import Averaging, Meta
from ._flat import MEASURE_EVERY_S
from ._member import RunMember
from ._minibatches import RoundDone
from .requests import WorkerSettings


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
