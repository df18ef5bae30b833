"""Parameter averaging on a worker: rounds of minibatches, each followed by an all-reduce.

`AveragingWorker._train` is the training loop.
"""

import contextlib
import time

from sparkwright.errors import NetworkError, NonFiniteLossError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.plan import epoch_minibatches
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Group, Progress
from sparkwright.workers.work import Span, quotas_by_speed, share_out

from ._averager import Averager, Averaging, RoundReports, progress_if_all_done
from ._control import Dismissed
from ._member import RunMember
from ._minibatches import RoundDone, may_be_averaged
from ._share_trainer import Pause, ShareTrainer
from .requests import WorkerSettings
from .stream import StreamedShard

_OWN_MOMENTS_EVERY = 20  # minibatches between checks that a worker's own moments are finite


class _StoppedError(Exception):
    """Raised after an averaging, if a member of the group stops."""


class AveragingWorker:
    """Train one shard in a group of workers until the run ends."""

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        self._settings, self._member, self._kept = settings, member, member.kept
        self._replica, self._control = member.replica, member.control
        self._trainer = ShareTrainer(
            settings,
            member.replica,
            member.shard,
            member.shards,
            member.phases,
            activity=member.control.activity,
        )
        self._averager = Averager(settings, member)
        self._reports = RoundReports(settings, member)
        self._pending: Averaging | None = None  # with a delay, during the next round
        self._seconds: dict[int, float] = {}  # worker -> of a minibatch, in the last round

    def run(self) -> None:
        """Run until the coordinator ends the run."""
        try:
            self._member.register()
            while True:
                with self._member.phases.phase(PhaseCode.ASSEMBLE):
                    order = self._control.next_order()
                if order.kind == "deliver":
                    self._member.delivery.deliver()
                elif order.kind == "group":
                    group = Group.from_dict(order.fields)
                    self._serve(group)
        except Dismissed:
            return

    def close(self) -> None:
        """Stop all threads."""
        self._member.shards.close()  # ends a wait for another worker's data
        self._trainer.close()
        self._averager.close()
        self._member.close()

    def _serve(self, group: Group) -> None:
        """Train with `group` until it ends, and report how it ended."""

        def work(ring: Ring) -> Ending:
            self._member.use_shards(group)
            self._trainer.discard_borrowed()
            self._seconds = {}
            self._reports.begin()
            self._member.synchronize(ring, group)
            try:
                return self._train(ring, group)
            except _StoppedError:
                return "stopped"
            finally:
                self._leave(ring)

        self._member.report(group, *self._member.meet(group, work))

    # -- the training loop ------------------------------------------------------------------

    def _train(self, ring: Ring, group: Group) -> Ending:
        master, epochs = self._settings.master, self._settings.epochs
        totals = epoch_minibatches(group.rows, master.batch_size_per_worker, master.steps_per_epoch)
        while True:
            if self._is_to_validate(group):
                self._finish(ring, group)
                self._member.validate(ring)
            self._call_back(ring, group)
            if self._progress.epoch < epochs:
                self._open_epoch(totals)
            while shares := self._shares(group, self._progress):
                self._round(ring, group, shares)
                self._call_back(ring, group)
            if self._progress.epoch == epochs:
                self._finish(ring, group)
                # Otherwise the remaining data belongs to an absent worker.
                return "waiting" if self._kept.progress.todo else "finished"
            self._progress = self._progress.after_epoch()

    def _round(self, ring: Ring, group: Group, shares: dict[int, Span]) -> None:
        """Train this worker's share, then average; with a delay, start to."""
        # Within this round, the pending averaging of the previous one is finished.
        self._control.check()
        began_s = time.monotonic()
        with self._control.activity.compute():
            done, waited_s = self._train_share(ring, group, shares)
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
        averaging = Averaging(
            before=progress,
            planned=planned,
            shares=shares,
            done=done,
            meta=self._reports.mine(
                done,
                finite=finite,
                seconds=trained_s - began_s - done.data_s - waited_s,
                stopping=self._is_to_end(group),
                is_first=ring.rank == 0,
            ),
            began_s=began_s,
            trained_s=trained_s,
        )
        self._averager.begin(ring, group, averaging)
        self._pending = averaging
        may_wait = self._averager.is_delayed and not self._reports.writes_next
        if not may_wait or averaging.meta.stopping:
            self._finish(ring, group)

    def _train_share(
        self, ring: Ring, group: Group, shares: dict[int, Span]
    ) -> tuple[RoundDone, float]:
        """Return the results, and the seconds spent waiting for the pending averaging."""
        mine, waited_s = shares.get(self._settings.worker), 0.0

        def finish() -> None:
            nonlocal waited_s
            asked_s = time.monotonic()
            with self._control.activity.wait():
                self._finish(ring, group, trained=mine is not None)
            waited_s += time.monotonic() - asked_s

        delay = self._settings.master.averaging_delay
        try:
            done = self._trainer.round(
                mine,
                stopping=self._control.stopping,
                pause=Pause(delay, finish) if self._pending is not None else None,
                next_borrowed=self._next_borrowed(group, shares),
            )
            if self._pending is not None:  # the round had fewer minibatches than the delay
                finish()
        except NonFiniteLossError:
            with contextlib.suppress(NetworkError, _StoppedError):
                finish()  # keep the previous average
            raise
        return done, waited_s

    def _finish(self, ring: Ring, group: Group, *, trained: bool = False) -> None:
        """Finish the pending averaging, if any; `trained`: the replica was, since it began."""
        if (averaging := self._pending) is None:
            return
        self._averager.finish(averaging, trained=trained)
        self._pending, metas = None, averaging.metas
        self._seconds |= {w: m.seconds / m.minibatches for w, m in metas.items() if m.minibatches}
        self._reports.averaged(ring, group, averaging)
        if any(meta.stopping for meta in metas.values()):
            raise _StoppedError
        if self._averager.is_delayed and not averaging.is_as_planned:
            # The next round was planned as if all shares had been trained.
            raise NetworkError("a worker did not train all of its share; the group restarts.")

    def _leave(self, ring: Ring) -> None:
        """Keep the result of the pending averaging if it is complete."""
        averaging, self._pending = self._pending, None
        if averaging is not None and self._averager.abandon(ring, averaging):
            self._reports.log(averaging)

    # -- what comes next --------------------------------------------------------------------

    @property
    def _progress(self) -> Progress:
        """Progress after the pending averaging, if any."""
        return self._kept.progress if self._pending is None else self._pending.planned

    @_progress.setter
    def _progress(self, progress: Progress) -> None:
        if self._pending is None:
            self._kept.progress = progress
        else:
            self._pending.planned = progress

    def _open_epoch(self, totals: tuple[int, ...]) -> None:
        """Reset metrics and assign the epoch's minibatches, unless a lost group did."""
        if self._progress.opened <= self._progress.epoch:
            self._replica.model.reset_metrics()
        self._progress = self._progress.with_epoch_opened(totals)

    def _is_to_validate(self, group: Group) -> bool:
        """Whether an epoch has ended whose validation is due."""
        progress = self._progress
        if not progress.epoch or progress.opened > progress.epoch:
            return False
        if progress.validated >= progress.epoch:
            return False
        return any(group.validation_rows[seat.worker] for seat in group.seats)

    def _is_to_end(self, group: Group) -> bool:
        """Whether this round is the last: training stops, or workers wait to join."""
        return self._control.stopping.is_set() or self._control.paused >= group.generation

    def _call_back(self, ring: Ring, group: Group) -> None:
        """Wait for the driver's callbacks if any are due; they may end training."""
        member, settings = self._member, self._settings
        if settings.callbacks and self._progress.awaits_callbacks(settings.callback_frequency):
            self._finish(ring, group)
            member.delivery.send_checkpoint(ring, group, write=False)
            if member.await_callbacks(ring):
                raise _StoppedError

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

    def _checks_updater(self, before: Progress, planned: Progress) -> bool:
        """Whether to check that the optimizer's moments are finite after this round."""
        # Those that are not averaged are checked less often, and at the end of an epoch.
        if self._kept.updater == "local" and planned.todo:
            frequency = self._settings.master.frequency_in(before.epoch)
            return planned.round % -(-_OWN_MOMENTS_EVERY // frequency) == 0
        return self._kept.updater != "reset"
