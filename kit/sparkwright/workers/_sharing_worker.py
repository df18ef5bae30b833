"""Gradient sharing on a worker: updates after minibatches, averaging after epochs.

`SharingWorker.run` is the training loop, which sends one message per iteration. Between messages
the worker applies received updates, handles the coordinator's orders, and sends its state to new
workers. Only this thread touches the network's variables, so no locks are needed.
"""

import gc
import logging
import time
from dataclasses import replace

import numpy as np

from sparkwright.errors import NetworkError
from sparkwright.masters import SharedTrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.topology import Seat
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Ending, Group
from sparkwright.workers.work import Span

from ._control import Dismissed
from ._member import RunMember
from ._minibatches import Minibatches, RoundDone
from ._peer_updates import Meetings, MessageLog, PeerUpdates
from ._pieces import Piece, Pieces
from ._shared_parameters import SharedParameters
from ._state_transfer import Snapshot, StateServer, fetch_state
from .requests import WorkerSettings

_log = logging.getLogger(__name__)
_IDLE_S = 0.01


class SharingWorker:
    """Train pieces of work and exchange updates with other workers until the run ends."""

    def __init__(
        self, settings: WorkerSettings[SharedTrainingMaster], member: RunMember, port: PeerPort
    ) -> None:
        master = settings.master
        self._settings, self._member, self._kept = settings, member, member.kept
        self._replica, self._control, self._port = member.replica, member.control, port
        self._phases, self._data_phase = member.phases, PhaseCode.FIRST_DATA
        activity = member.control.activity
        self._minibatches = Minibatches(
            settings, member.replica, member.shard, member.shards, member.phases, activity
        )
        self._pieces = Pieces(settings, self._minibatches)
        self._shared = SharedParameters(
            member.replica,
            algorithm=master.threshold,
            clipping=master.residual_clipping,
            per_variable=master.per_variable_thresholds,
            # A hook may keep a reference to a variable's value.
            in_place=not master.hooks,
        )
        self._updates = PeerUpdates(settings, port, self._shared, member.phases)
        self._meetings = Meetings(settings, member, self._shared, self._updates)
        self._messages = MessageLog(
            member, self._shared, self._updates, debug=master.encoding_debug_mode
        )
        self._states = StateServer(port, me=(settings.worker, settings.attempt))
        self._group: Group | None = None
        self._sent = 0  # messages
        self._epoch, self._in_epoch = -1, 0
        self._met = True  # the last averaging succeeded
        self._collected_s = time.monotonic()

    def close(self) -> None:
        """Stop all threads."""
        self._member.shards.close()  # ends a wait for another worker's data
        self._pieces.close()
        self._states.close()
        self._updates.close()
        self._member.close()

    # -- the training loop ------------------------------------------------------------------

    def run(self) -> None:
        """Run until the coordinator ends the run."""
        collecting = gc.isenabled()
        if self._settings.master.periodic_gc:
            gc.disable()
        try:
            self._member.register()
            self._control.on_snapshot_request(self._send_snapshot)
            while True:
                with self._updates.reading_all():
                    self._handle_orders()
                    self._fetch_missed_state()
                if self._kept.synchronized:
                    self._states.serve(self._snapshot)
                self._updates.absorb()
                piece = self._pieces.current
                if piece is not None and self._updates.is_within_staleness():
                    with self._control.activity.compute():
                        self._step(piece)
        except Dismissed:
            return
        finally:
            if collecting:
                gc.enable()

    def _step(self, piece: Piece) -> None:
        """Train the minibatches of one message and send the update."""
        assert self._group is not None
        histograms, updates = self._member.histograms, self._updates
        is_due = histograms.is_due(self._group, updates.clock + 1)
        sampled = histograms.sample() if is_due else None
        began_s = time.monotonic()
        if (done := self._train(piece)) is None:
            return
        size, trained_s = len(done.losses), time.monotonic()
        residual, measured_s = self._messages.residual(), time.monotonic()
        encoded = self._shared.encode(step=self._sent)
        encoded_s = self._phases.since(PhaseCode.ENCODE, measured_s)
        updates.publish(encoded.words, minibatches=size)
        ended_s = self._phases.since(PhaseCode.SEND, encoded_s)
        self._sent += 1
        self._meetings.minibatches += size
        self._in_epoch += size
        piece.done, piece.examples = piece.done + size, piece.examples + int(done.examples.sum())
        self._member.rows.add(
            done,
            epoch=piece.span.epoch + 1,
            round=self._in_epoch,
            seconds=ended_s - began_s,
            columns=self._messages.columns(encoded, residual, minibatches=size),
        )
        message_s, updates.absorbed_s = ended_s - measured_s + updates.absorbed_s, 0.0
        self._pieces.adapt((trained_s - began_s) / size, message_s)
        if sampled is not None:
            moment = {"step": updates.clock, "epoch": piece.span.epoch + 1, "minibatches": size}
            histograms.take(histograms.sample(), sampled, **moment)
        if piece.is_done:
            self._end_piece()
        self._collect_garbage()

    def _train(self, piece: Piece) -> RoundDone | None:
        """Train the minibatches of one message; None if that failed and ended the piece."""
        began_s = time.monotonic()
        try:
            size, blocks = self._pieces.fetch(piece)
            fetched_s = self._phases.since(self._data_phase, began_s)
            self._data_phase = PhaseCode.DATA
            self._messages.before_training()
            done = self._minibatches.train(
                blocks, piece.span, data_s=fetched_s - began_s, done=piece.done
            )
            self._messages.after_training(done, minibatches=size)
        except NetworkError:
            self._end_piece()  # the data's owner has disconnected
            return None
        except Exception as error:
            self._fail(error)
            return None
        return done

    def _fail(self, error: Exception) -> None:
        """Report an error; undo the last minibatch, so that earlier work is kept."""
        group, member = self._group, self._member
        assert group is not None
        self._meetings.reset_to_shared()
        self._end_piece(wants_more=False)
        member.report(group, "failed", member.failure_of(error))

    def _collect_garbage(self) -> None:
        """Run the garbage collector periodically, between minibatches."""
        master, now_s = self._settings.master, time.monotonic()
        if master.periodic_gc and now_s - self._collected_s > master.periodic_gc_interval_s:
            gc.collect()
            self._collected_s = now_s

    # -- orders -----------------------------------------------------------------------------

    def _handle_orders(self) -> None:
        """Handle the coordinator's orders; without work, wait briefly for one."""
        while (order := self._next_order()) is not None:
            if order.kind == "group":
                self._regroup(Group.from_dict(order.fields))
            elif order.kind == "piece":
                self._begin_piece(Span(*order.fields["piece"]))
            elif order.kind == "meet":
                self._meet(order)
            elif order.kind == "deliver":
                self._deliver()
        if self._pieces.current is None and self._kept.synchronized:
            self._updates.rest()

    def _next_order(self) -> Message | None:
        if self._pieces.current is not None:
            return self._control.poll_order(0)
        began_s = time.monotonic()
        order = self._control.poll_order(_IDLE_S)
        code = PhaseCode.WAIT if self._kept.synchronized else PhaseCode.ASSEMBLE
        self._phases.since(code, began_s, joins=True)
        return order

    def _ask(self, *, wants_more: bool = True) -> None:
        """Report the current piece, if any, and request another."""
        self._control.send(
            "work",
            {
                **self._pieces.report(),
                "iterations": self._replica.state.iterations,
                "wants_more": wants_more,
                "thresholds": self._shared.adapted,
            },
        )

    def _begin_piece(self, span: Span) -> None:
        self._pieces.begin(span)
        self._updates.wake()
        if span.epoch > self._epoch:
            self._epoch, self._in_epoch = span.epoch, 0
            self._replica.model.reset_metrics()

    def _end_piece(self, *, wants_more: bool = True) -> None:
        self._ask(wants_more=wants_more)
        self._pieces.end()

    def _meet(self, order: Message) -> None:
        """Interrupt the piece and average with the other workers, so that states are equal."""
        group = Group.from_dict(order.fields["group"])
        if self._pieces.current is not None:
            self._end_piece(wants_more=False)

        def average(ring: Ring) -> Ending:
            self._meetings.average(ring, group, validate=order.fields["validate"])
            if order.fields["checkpoint"]:
                self._member.delivery.send_checkpoint(ring, group)
            return "met"

        ending, failure = self._member.meet(group, average)
        self._met = ending == "met"
        if self._met:
            self._meetings.minibatches = 0
        # A worker that missed too many updates catches up before the next averaging.
        self._fetch_missed_state()
        self._states.serve(self._snapshot)
        self._member.report(group, ending, failure)

    def _deliver(self) -> None:
        """Send the driver the last average, or this replica's state if averaging failed."""
        kept = self._kept
        if not self._met:
            # The replica's variables include updates that have not been sent.
            kept.work[:] = self._replica.state.read(updater=True)
            if not np.isfinite(kept.work).all():
                kept.work[:] = self._snapshot().vector
            kept.keep(replace(kept.progress, iterations=self._replica.state.iterations))
        self._member.delivery.deliver()

    # -- membership and state ---------------------------------------------------------------

    def _regroup(self, group: Group) -> None:
        """Handle a change of membership; fetch a state if this worker has none."""
        member = self._member
        self._group = group
        member.use_shards(group)
        self._updates.follow(group)
        if self._settings.master.combine == "mean":
            self._replica.share_updates(1 / len(group.seats))
        fresh = not self._kept.synchronized
        if fresh:
            self._shared.continue_from(group.progress.thresholds)
        try:
            if fresh and group.source < 0:
                self._synchronize(group)
            elif fresh:
                self._take_state(group, group.seats[group.source])
            self._replica.use_learning_rate(group.progress.learning_rate, afresh=fresh)
            self._updates.reshape(group)
        except NetworkError:
            member.report(group, "broken")
            return
        except Dismissed:
            raise
        except Exception as error:
            member.report(group, "failed", member.failure_of(error))
            return
        if fresh:
            self._ask()

    def _synchronize(self, group: Group) -> None:
        """Start together with all workers, from the driver's state."""
        ring: Ring | None = None
        try:
            ring = self._member.join(group)
            self._member.synchronize(ring, group)
        finally:
            self._member.leave(ring, group)
        self._shared.reset(self._kept.average[: self._shared.vector.size])

    def _take_state(self, group: Group, seat: Seat) -> None:
        """Join a running group: load the state of one member."""
        began_s, kept = time.monotonic(), self._kept
        found = fetch_state(
            (seat.host, seat.port),
            of=(seat.worker, seat.attempt),
            port=self._port,
            size=kept.average.size,
            connect_timeout_s=self._settings.master.mesh.connect_timeout_s,
            peer_timeout_s=self._settings.master.mesh.peer_timeout_s,
        )
        kept.work[:] = found.vector
        kept.keep(group.progress)
        self._replica.state.write(found.vector)
        kept.write_extras(found.extras)
        self._replica.state.set_iterations(found.iterations)
        self._shared.reset(found.vector[: self._shared.vector.size])
        self._updates.restore(found)
        kept.synchronized = True
        self._phases.since(PhaseCode.STATE, began_s)

    def _fetch_missed_state(self) -> None:
        """Load a neighbor's full state if this worker missed more updates than neighbors keep."""
        while self._updates.behind and self._group is not None:
            origin = self._updates.behind.popleft()
            for seat in self._group.seats:
                if (seat.worker, seat.attempt) == origin:
                    try:
                        self._take_state(self._group, seat)
                    except NetworkError:
                        worker = self._settings.worker
                        _log.warning("worker %d could not catch up", worker, exc_info=True)

    def _snapshot(self) -> Snapshot:
        """Return the state for a new worker: the shared parameters, without unsent updates."""
        vector = self._replica.state.read(updater=True)
        vector[: self._shared.vector.size] = self._shared.vector
        return Snapshot(
            vector=vector,
            extras=pack_arrays(self._kept.extras()),
            iterations=self._replica.state.iterations,
            clock=self._updates.clock,
            clocks=self._updates.clocks,
            versions=self._updates.versions,
        )

    def _send_snapshot(self) -> None:
        """Send the driver the shared state, on the reader thread, even within a step."""
        if self._kept.synchronized:
            self._member.delivery.send_vector(self._snapshot().vector)
