"""Parameter averaging on a worker: rounds of minibatches, each followed by an all-reduce."""

import contextlib
import math
import time

from sparkwright.errors import NetworkError, NonFiniteLossError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.checkpointing import CopySchedule
from sparkwright.masters.plan import epoch_minibatches
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Group, Progress
from sparkwright.workers.work import Span, quotas_by_speed, share_out

from ._averager import Averager, Averaging, Meta, progress_if_all_done
from ._control import Dismissed
from ._flat import MEASURE_EVERY_S
from ._member import RunMember
from ._minibatches import LocalTrainer, Pause, RoundDone, may_be_averaged
from .requests import WorkerSettings
from .stream import StreamedShard

_OWN_MOMENTS_EVERY = 20  # minibatches between checks that a worker's own moments are finite


class _GroupEndsError(Exception):
    """Raised after the last averaging of a group."""


class AveragingWorker:
    """Train one shard in a group of workers until the run ends."""

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        self._settings, self._member = settings, member
        self._replica, self._control = member.replica, member.control
        self._phases = member.phases
        self._trainer = LocalTrainer(
            settings,
            member.replica,
            member.shard,
            member.shards,
            member.phases,
            activity=member.control.activity,
        )
        self._averager = Averager(settings, member)
        self._pending: Averaging | None = None
        self._seconds: dict[int, float] = {}  # worker -> of a minibatch, in the last round
        self._rounds_since, self._checkpoint_s = 0, time.monotonic()
        self._writes_next = False  # with a delay: whether a checkpoint follows this round
        self._copies = CopySchedule() if settings.copies else None
        self._measured_s = -math.inf

    def run(self) -> None:
        """Run until the coordinator ends the run."""
        try:
            self._member.register()
            while True:
                with self._phases.phase(PhaseCode.ASSEMBLE):
                    order = self._control.next_order()
                if order.kind == "deliver":
                    self._member.deliver()
                elif order.kind == "group":
                    self._serve(Group.from_dict(order.fields))
        except Dismissed:
            return

    def close(self) -> None:
        self._member.shards.close()  # ends a wait for another worker's data
        self._trainer.close()
        self._averager.close()
        self._member.close()

    # -- one group --------------------------------------------------------------------------

    def _serve(self, group: Group) -> None:
        """Train with `group` until it ends, and report how it ended."""

        def work(ring: Ring) -> Ending:
            self._member.use_shards(group)
            self._trainer.discard_borrowed()
            self._seconds = {}
            plan = self._settings.master.checkpoint
            self._writes_next = plan is not None and plan.due(1, 0.0)
            self._member.synchronize(ring, group)
            try:
                return self._train(ring, group)
            finally:
                self._leave(ring)

        self._member.report(group, *self._member.meet(group, work))

    @property
    def _progress(self) -> Progress:
        """Progress after the pending averaging, if any."""
        return self._member.progress if self._pending is None else self._pending.planned

    @_progress.setter
    def _progress(self, progress: Progress) -> None:
        if self._pending is None:
            self._member.progress = progress
        else:
            self._pending.planned = progress

    def _train(self, ring: Ring, group: Group) -> Ending:
        member, epochs = self._member, self._settings.epochs
        master = self._settings.master
        totals = epoch_minibatches(group.rows, master.batch_size_per_worker, master.steps_per_epoch)
        while True:
            if self._is_to_evaluate(group):
                if self._finish(ring, group):
                    return "stopped"
                member.validate(ring)
            if self._call_back(ring, group):
                return "stopped"
            progress = self._progress
            if progress.epoch < epochs:
                if progress.opened <= progress.epoch:
                    self._replica.reset_metrics()
                self._progress = progress.with_epoch_opened(totals)
            while shares := self._shares(group, self._progress):
                if self._round(ring, group, shares) or self._call_back(ring, group):
                    return "stopped"
            if self._progress.epoch == epochs:
                if self._finish(ring, group):
                    return "stopped"
                # The remaining data belongs to an absent worker.
                return "waiting" if member.progress.todo else "finished"
            self._progress = self._progress.after_epoch()

    def _is_to_evaluate(self, group: Group) -> bool:
        """Whether an epoch has ended whose evaluation is due."""
        progress = self._progress
        if not progress.epoch or progress.opened > progress.epoch:
            return False
        return progress.validated < progress.epoch and self._member.has_validation(group)

    def _call_back(self, ring: Ring, group: Group) -> bool:
        """Wait for the driver's callbacks if any are due; return True if training ends."""
        member, settings = self._member, self._settings
        is_due = settings.callbacks and self._progress.awaits_callbacks(settings.callback_frequency)
        if not is_due:
            return False
        if self._finish(ring, group):
            return True
        member.send_checkpoint(ring, group, write=False)
        return member.await_callbacks(ring)

    def _shares(self, group: Group, progress: Progress) -> dict[int, Span]:
        """Assign spans for the next round; all workers compute the same result."""
        members, settings = [seat.worker for seat in group.seats], self._settings
        frequency = settings.master.frequency_in(progress.epoch)
        lend = settings.master.share_work
        if group.has_joined:
            left = sum(span.size for span in progress.todo)
            lend, frequency = True, min(frequency, max(1, -(-left // len(members))))
        quotas = dict.fromkeys(members, frequency)
        if settings.master.share_work:
            quotas = quotas_by_speed(self._seconds, members=members, frequency=frequency)
        shares = share_out(progress.todo, epoch=progress.epoch, quotas=quotas, lend=lend)
        if isinstance(self._member.shard, StreamedShard):  # readable by its own worker only
            return {worker: span for worker, span in shares.items() if span.owner == worker}
        return shares

    def _next_borrowed(self, group: Group, shares: dict[int, Span]) -> Span | None:
        """Return the span that this worker, if it holds no data, is to prefetch; else None."""
        worker = self._settings.worker
        if worker < group.owners:
            return None
        return self._shares(group, progress_if_all_done(self._progress, shares)).get(worker)

    def _round(self, ring: Ring, group: Group, shares: dict[int, Span]) -> bool:
        """Train, then average or start averaging; return True if a member stops."""
        self._control.check()
        mine, delay = shares.get(self._settings.worker), self._settings.master.averaging_delay
        began_s, waited_s = time.monotonic(), 0.0

        def finish() -> None:
            nonlocal waited_s
            asked_s = time.monotonic()
            with self._control.activity.wait():
                ends = self._finish(ring, group, trained=mine is not None)
            if ends:
                raise _GroupEndsError
            waited_s += time.monotonic() - asked_s

        pause = Pause(delay, finish) if self._pending is not None else None
        with self._control.activity.compute():
            try:
                done = self._trainer.round(
                    mine,
                    stopping=self._control.stopping,
                    pause=pause,
                    next_borrowed=self._next_borrowed(group, shares),
                )
                if self._pending is not None:  # the round had fewer minibatches than the delay
                    finish()
            except _GroupEndsError:
                return True
            except NonFiniteLossError:
                with contextlib.suppress(NetworkError, _GroupEndsError):
                    finish()  # keep the previous average
                raise
            progress = self._progress
            planned = progress_if_all_done(progress, shares)
            finite = may_be_averaged(
                done,
                self._replica,
                self._settings,
                epoch=progress.epoch,
                updater=self._checks_updater(progress, planned),
            )
        trained_s = time.monotonic()
        computed_s = trained_s - began_s - done.data_s - waited_s
        averaging = Averaging(
            before=progress,
            planned=planned,
            shares=shares,
            done=done,
            meta=self._meta(ring, group, done, finite=finite, seconds=computed_s),
            began_s=began_s,
            trained_s=trained_s,
        )
        self._averager.begin(ring, group, averaging)
        self._pending = averaging
        if delay and not self._writes_next and not averaging.meta.stopping:
            return False
        return self._finish(ring, group)

    def _checks_updater(self, before: Progress, planned: Progress) -> bool:
        """Whether to check that the optimizer's moments are finite after this round."""
        if self._member.updater == "local" and planned.todo:
            frequency = self._settings.master.frequency_in(before.epoch)
            return planned.round % -(-_OWN_MOMENTS_EVERY // frequency) == 0
        return self._member.updater != "reset"

    def _finish(self, ring: Ring, group: Group, *, trained: bool = False) -> bool:
        """Finish the pending averaging, if any; return True if a member stops."""
        if (averaging := self._pending) is None:
            return False
        self._averager.finish(averaging, trained=trained)
        self._pending, metas, done = None, averaging.metas, averaging.done
        self._seconds |= {w: m.seconds / m.minibatches for w, m in metas.items() if m.minibatches}
        if "update_ratio" in done.readings:
            self._measured_s = time.monotonic()
        now_s = self._log(averaging)
        self._take_histograms(group, averaging)
        self._rounds_since += 1
        write = asked = any(meta.checkpoint for meta in metas.values())
        if self._averager.is_delayed:
            write, self._writes_next = self._writes_next, asked
        if write:
            self._rounds_since, self._checkpoint_s = 0, now_s
        if write or any(meta.copy for meta in metas.values()):
            self._member.send_checkpoint(ring, group, write=write)
            if self._copies is not None:
                sent_s = time.monotonic()
                self._copies.record_copy(sent_s - now_s, now_s=sent_s)
        ends = any(meta.stopping for meta in metas.values())
        if self._averager.is_delayed and not (ends or averaging.is_as_planned):
            # The next round was planned as if all shares had been trained.
            raise NetworkError("a worker did not train all of its share; the group restarts.")
        return ends

    def _take_histograms(self, group: Group, averaging: Averaging) -> None:
        """Compute histograms if they are due; `work` still holds the previous average."""
        member, worker = self._member, self._settings.worker
        step = member.progress.steps[worker]
        if averaging.changed and member.histograms.is_due(group, step):
            member.histograms.take(
                member.histograms.sample(member.average),
                member.histograms.sample(member.work),
                step=step,
                epoch=min(averaging.before.epoch + 1, self._settings.epochs),
                minibatches=max(meta.minibatches for meta in averaging.metas.values()),
            )

    def _is_to_end(self, group: Group) -> bool:
        """Whether this round is the last: training stops, or workers wait to join."""
        return self._control.stopping.is_set() or self._control.paused >= group.generation

    def _leave(self, ring: Ring) -> None:
        """Keep the result of the pending averaging if it is complete."""
        averaging, self._pending = self._pending, None
        if averaging is not None and self._averager.abandon(ring, averaging):
            self._log(averaging)

    def _log(self, averaging: Averaging) -> float:
        """Log the averaged minibatches; return the monotonic time."""
        now_s, progress = time.monotonic(), averaging.before
        mine = averaging.shares.get(self._settings.worker)
        ended_s = averaging.trained_s if self._averager.is_delayed else now_s
        self._member.rows.add(
            averaging.done,
            epoch=min(1 + (progress.epoch if mine is None else mine.epoch), self._settings.epochs),
            round=progress.round + 1,
            seconds=ended_s - averaging.began_s,
            averagings=progress.averagings + 1,
        )
        return now_s

    def _meta(
        self, ring: Ring, group: Group, done: RoundDone, *, finite: bool, seconds: float
    ) -> Meta:
        """Return this worker's report on its share."""
        now_s, is_first = time.monotonic(), ring.rank == 0
        plan = self._settings.master.checkpoint if is_first else None
        rounds = self._rounds_since + 1
        if self._averager.is_delayed:  # checkpoints are announced a round ahead
            rounds = 1 if self._writes_next else rounds + 1
        return Meta(
            minibatches=len(done.losses),
            examples=int(done.examples.sum()),
            stopping=self._is_to_end(group),
            checkpoint=plan is not None and plan.due(rounds, now_s - self._checkpoint_s),
            copy=self._copies is not None and is_first and self._copies.is_due(now_s),
            finite=finite,
            measures=is_first and now_s - self._measured_s >= MEASURE_EVERY_S,
            iterations=self._replica.iterations,
            seconds=seconds,
        )
