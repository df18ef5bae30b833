"""A worker's part in parameter averaging: rounds of minibatches, each ended by an all-reduce."""

import math
import struct
import time
from typing import NamedTuple

from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.masters.checkpointing import CopySchedule
from sparkwright.masters.plan import epoch_minibatches
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Group, Progress
from sparkwright.workers.work import Span, quotas_by_speed, share_out

from ._control import Dismissed
from ._flat import MEASURE_EVERY_S, sample_of, update_ratio
from ._member import RunMember, exchanged
from ._minibatches import LocalTrainer, RoundDone, may_be_averaged
from .requests import WorkerSettings
from .stream import StreamedShard


class _Meta(NamedTuple):
    """What each worker says of its share before an averaging."""

    minibatches: int
    examples: int
    stopping: bool
    checkpoint: bool
    copy: bool  # likewise, for the driver's memory only
    finite: bool  # whether its parameters are; if not, its part is not averaged
    measures: bool  # all do so in the same round, or each would make the others wait in another
    iterations: int
    seconds: float  # computing


_META = struct.Struct("<qq?????qd")


class AveragingWorker:
    """Trains one shard in a group of workers until the run ends."""

    def __init__(
        self, settings: WorkerSettings[ParameterAveragingTrainingMaster], member: RunMember
    ) -> None:
        """Prepare to train.

        Raises:
            DataError: if the data does not fit the network.
        """
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
        self._seconds: dict[int, float] = {}  # worker -> of a minibatch, in the last round
        self._rounds_since, self._checkpoint_s = 0, time.monotonic()
        self._copies = CopySchedule() if settings.copies else None
        self._measured_s = -math.inf

    def run(self) -> None:
        """Take part until dismissed."""
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
        """End all threads."""
        self._member.shards.close()  # ends a wait for another worker's data
        self._trainer.close()
        self._member.close()

    # -- one group --------------------------------------------------------------------------

    def _serve(self, group: Group) -> None:
        """Train with `group` until it ends one way or another, and report how."""

        def work(ring: Ring) -> Ending:
            self._member.use_shards(group)
            self._trainer.forget_lent()
            self._seconds = {}
            self._member.synchronise(ring, group)
            return self._train(ring, group)

        self._member.report(group, *self._member.meet(group, work))

    def _train(self, ring: Ring, group: Group) -> Ending:
        member, epochs = self._member, self._settings.epochs
        master = self._settings.master
        totals = epoch_minibatches(group.rows, master.batch_size_per_worker, master.steps_per_epoch)
        while True:
            ends = False
            if self._is_to_evaluate(group):
                member.validate(ring)
                ends = self._settings.judged and member.await_verdict(ring)
            if self._call_back(ring, group) or ends:
                return "stopped"
            progress = member.progress
            if progress.epoch < epochs:
                if progress.opened <= progress.epoch:
                    self._replica.reset_metrics()
                member.progress = progress.with_epoch_opened(totals)
            while shares := self._shares(group, member.progress):
                if self._round(ring, group, shares) or self._call_back(ring, group):
                    return "stopped"
            if member.progress.epoch == epochs:
                # What is left is an absent worker's.
                return "waiting" if member.progress.todo else "finished"
            member.progress = member.progress.after_epoch()

    def _is_to_evaluate(self, group: Group) -> bool:
        """Whether this is the end of an epoch that is evaluated, and has not been."""
        settings, progress = self._settings, self._member.progress
        if not progress.epoch or progress.opened > progress.epoch:
            return False
        due = progress.epoch % settings.evaluate_every == 0 or progress.epoch == settings.epochs
        done = progress.judged if settings.judged else progress.validated
        return due and done < progress.epoch and self._member.has_validation(group)

    def _call_back(self, ring: Ring, group: Group) -> bool:
        """Wait for the driver's callbacks if any are due; True: training ends."""
        member, settings = self._member, self._settings
        is_due = settings.callbacks and member.progress.awaits_callbacks(
            settings.callback_frequency
        )
        if not is_due:
            return False
        member.send_checkpoint(ring, group, write=False)
        return member.await_callbacks(ring)

    def _shares(self, group: Group, progress: Progress) -> dict[int, Span]:
        """Who does what in the next round; every worker comes to the same."""
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
        if isinstance(self._member.shard, StreamedShard):  # nobody else can draw from it
            return {worker: span for worker, span in shares.items() if span.owner == worker}
        return shares

    def _lent_next(self, group: Group, shares: dict[int, Span]) -> Span | None:
        """What this worker, if it has joined, will train after this round if all goes well."""
        worker = self._settings.worker
        if worker < group.owners:
            return None
        done = {each: (share.size, 0) for each, share in shares.items()}
        progress = self._member.progress.after_round(shares, done, iterations=0)
        return self._shares(group, progress).get(worker)

    def _round(self, ring: Ring, group: Group, shares: dict[int, Span]) -> bool:
        """One averaging; True if it was the last one because somebody wants to stop."""
        self._control.check()
        member, progress = self._member, self._member.progress
        began_s = time.monotonic()
        with self._control.activity.compute():
            done = self._trainer.round(
                shares.get(self._settings.worker),
                lent_next=self._lent_next(group, shares),
                stopping=self._control.stopping,
            )
            finite = may_be_averaged(
                done,
                self._replica,
                self._settings,
                epoch=progress.epoch,
                updater=member.updater != "reset",
            )
        computed_s = time.monotonic()
        metas = self._exchange_metas(
            ring, group, done, finite=finite, seconds=computed_s - began_s - done.data_s
        )
        met_s = self._phases.since(PhaseCode.WAIT, computed_s)
        weights = [meta.minibatches if meta.finite else 0 for meta in metas.values()]
        changed = member.mean(ring, weights)
        if not all(meta.finite for meta in metas.values()) and not changed:
            self._go_back()
        if any(meta.measures for meta in metas.values()) and done.readings and finite:
            self._measured_s = time.monotonic()
            done.readings["update_ratio"] = self._update_ratio(ring, weights)
        if changed:
            share = weights[ring.rank] / sum(weights)
            self._average(ring, met_s, finite=finite, share=share)
        self._replica.iterations = max(meta.iterations for meta in metas.values())
        self._seconds |= {w: m.seconds / m.minibatches for w, m in metas.items() if m.minibatches}
        progress = progress.after_round(
            shares,
            {worker: (m.minibatches, m.examples) for worker, m in metas.items()},
            iterations=self._replica.iterations,
        )
        member.keep_average(progress, changed=changed)
        ended_s = time.monotonic()
        mine = shares.get(self._settings.worker)
        member.rows.add(
            done,
            epoch=1 + (progress.epoch if mine is None else mine.epoch),
            round=progress.round,
            seconds=ended_s - began_s,
        )
        self._rounds_since += 1
        write = any(meta.checkpoint for meta in metas.values())
        if write:
            self._rounds_since, self._checkpoint_s = 0, ended_s
        if write or any(meta.copy for meta in metas.values()):
            member.send_checkpoint(ring, group, write=write)
            if self._copies is not None:
                sent_s = time.monotonic()
                self._copies.took(sent_s - ended_s, now_s=sent_s)
        return any(meta.stopping for meta in metas.values())

    def _go_back(self) -> None:
        """No part could be averaged: all continue from the last average."""
        self._replica.write(self._member.average[: self._member.size])
        if self._member.updater != "average":
            self._replica.reset_updater()

    def _exchange_metas(
        self, ring: Ring, group: Group, done: RoundDone, *, finite: bool, seconds: float
    ) -> dict[int, _Meta]:
        plan = self._settings.master.checkpoint if ring.rank == 0 else None
        mine = _Meta(
            minibatches=len(done.losses),
            examples=int(done.examples.sum()),
            stopping=self._control.stopping.is_set() or self._control.paused >= group.generation,
            checkpoint=plan is not None
            and plan.due(self._rounds_since + 1, time.monotonic() - self._checkpoint_s),
            copy=self._copies is not None
            and ring.rank == 0
            and self._copies.is_due(time.monotonic()),
            finite=finite,
            measures=ring.rank == 0 and time.monotonic() - self._measured_s >= MEASURE_EVERY_S,
            iterations=self._replica.iterations,
            seconds=seconds,
        )
        metas = exchanged(ring, mine, _META)
        return {seat.worker: meta for seat, meta in zip(group.seats, metas, strict=True)}

    def _average(self, ring: Ring, met_s: float, *, finite: bool, share: float) -> None:
        """Replace this worker's state by the new average; it is in `work`, too.

        Moments of its own start afresh if they may not be `finite`. `share`: its weight.
        """
        member, outer = self._member, self._settings.master.outer_optimizer
        if ring.size > 1:
            work = member.work[: member.size]
            if member.rounded is None:
                ring.all_reduce(work)
            else:
                member.rounded.reduce(ring, member.average, work, share=share)
            met_s = self._phases.since(PhaseCode.AVERAGE, met_s)
        if outer is not None:
            member.take_outer_step(outer)
        if ring.size > 1 or outer is not None:
            self._replica.write(member.work[: member.size])
        if member.updater == "reset" or (member.updater == "local" and not finite):
            self._replica.reset_updater()
        self._phases.since(PhaseCode.APPLY, met_s)

    def _update_ratio(self, ring: Ring, weights: list[int]) -> float:
        """Of what this worker did in the round; its part of the mean is in `work`."""
        mine, size = weights[ring.rank], self._replica.state.trainable_size
        after = sample_of([self._member.work[:size]])
        after *= sum(weights) / mine
        return update_ratio(sample_of([self._member.average[:size]]), after, minibatches=mine)
