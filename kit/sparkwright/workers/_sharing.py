"""Gradient sharing on a worker: updates after minibatches, averaging after epochs.

One loop sends one message per iteration. Between messages the worker applies received updates,
handles the coordinator's orders, and sends its state to new workers. Only this thread touches the
network's variables, so no locks are needed.
"""

import gc
import logging
import math
import struct
import time
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import NetworkError
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.cost import PIECE_S, gathered
from sparkwright.mesh.framing import Message
from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.topology import Seat
from sparkwright.mesh.update_mesh import UpdateMesh
from sparkwright.networks import pack_arrays
from sparkwright.timeline import PhaseCode
from sparkwright.updates import Encoded
from sparkwright.workers.protocol import Ending, Group
from sparkwright.workers.work import Span

from ._control import Dismissed
from ._flat import MEASURE_EVERY_S, Vector, sample_of, update_ratio
from ._member import RunMember, exchanged
from ._minibatches import Block, Minibatches, non_finite_state
from ._shared_parameters import SharedParameters
from ._state_transfer import Snapshot, StateServer, fetch_state
from .requests import WorkerSettings

_log = logging.getLogger(__name__)
_IDLE_S = 0.01
# How often a wait checks whether to stop.
_LOOK_S = 0.2
# Minimum interval of residual measurements without debug mode, and their maximum share of time.
_STATISTICS_S, _STATISTICS_SHARE = 1.0, 0.02
# Weight of the latest message's cost in the mean of all.
_LATEST = 0.2
# Header of an update: number of minibatches trained by its sender.
_CLOCK = struct.Struct("<q")
# Clock of an idle worker, for which other workers do not wait.
_RESTING = (1 << 62) - 1


class SharingWorker:
    """Train pieces of work and exchange updates with other workers until the run ends."""

    def __init__(
        self,
        settings: WorkerSettings[SharedTrainingMaster],
        member: RunMember,
        port: PeerPort,
    ) -> None:
        self._settings, self._member = settings, member
        self._replica, self._control, self._port = member.replica, member.control, port
        self._phases, self._data_phase = member.phases, PhaseCode.FIRST_DATA
        self._minibatches = Minibatches(
            settings,
            member.replica,
            member.shard,
            member.shards,
            member.phases,
            member.control.activity,
        )
        self._shared = SharedParameters(
            member.replica,
            algorithm=settings.master.threshold,
            clipping=settings.master.residual_clipping,
            per_variable=settings.master.per_variable_thresholds,
            # A hook may keep a reference to a variable's value.
            in_place=not settings.master.hooks,
        )
        self._me = (settings.worker, settings.attempt)
        self._mesh = UpdateMesh(
            port,
            me=self._me,
            name=f"sparkwright-mesh-{settings.worker}",
            max_pending_bytes=settings.master.mesh.max_pending_bytes,
            chunk_bytes=settings.master.mesh.chunk_bytes,
            peer_timeout_s=settings.master.mesh.peer_timeout_s,
            connect_timeout_s=settings.master.mesh.connect_timeout_s,
        )
        self._states = StateServer(port, me=self._me)
        self._behind: deque[tuple[int, int]] = deque()  # neighbors to fetch a state from
        self._mesh.on_catch_up = self._behind.append
        self._group: Group | None = None
        self._sequence = 0  # of the last update sent
        self._clock = 0  # minibatches trained; a new worker starts at the others' clock
        self._clocks: dict[int, int] = {}  # other worker -> clock
        self._attempts: dict[int, int] = {}  # other worker -> attempt
        self._since_meeting = 0
        self._messages = 0
        self._per_message = settings.master.minibatches_per_message or 1
        self._wanted = 0  # minibatches of the next piece; 0: the coordinator decides
        self._piece: _Piece | None = None
        self._epoch = -1
        self._in_epoch = 0
        self._resting = False
        self._met = True  # the last averaging succeeded
        self._statistics_s = 0.0  # time of the next residual measurement
        self._absorbed_s = 0.0  # time to apply received updates since the last message
        self._message_s = math.nan  # mean cost of a message, including received ones
        self._measured_s = -math.inf
        self._collected_s = time.monotonic()
        self._feeder = ThreadPoolExecutor(1, thread_name_prefix="sparkwright-prefetch")

    def run(self) -> None:
        """Run until the coordinator ends the run."""
        collecting = gc.isenabled()
        if self._settings.master.periodic_gc:
            gc.disable()
        try:
            self._member.register()
            self._control.on_snapshot_request(self._send_snapshot)
            while True:
                # Keep reading while waiting, to avoid a deadlock with blocked neighbors.
                with self._mesh.reading_all():
                    self._handle_orders()
                    self._fetch_missed_state()
                if self._member.synchronized:
                    self._states.serve(self._snapshot)
                self._absorb()
                if self._piece is not None and self._is_within_staleness():
                    self._step()
        except Dismissed:
            return
        finally:
            if collecting:
                gc.enable()

    def close(self) -> None:
        self._member.shards.close()  # ends a wait for another worker's data
        self._feeder.shutdown(wait=True, cancel_futures=True)
        self._states.close()
        self._mesh.close()
        self._member.close()

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
        if self._piece is None and self._member.synchronized:
            self._rest()

    def _next_order(self) -> Message | None:
        if self._piece is not None:
            return self._control.poll_order(0)
        began_s = time.monotonic()
        order = self._control.poll_order(_IDLE_S)
        code = PhaseCode.WAIT if self._member.synchronized else PhaseCode.ASSEMBLE
        self._phases.since(code, began_s, joins=True)
        return order

    def _regroup(self, group: Group) -> None:
        """Handle a change of membership; fetch a state if this worker has none."""
        member = self._member
        self._group = group
        member.use_shards(group)
        self._clocks = {
            seat.worker: self._clocks.get(seat.worker, self._clock)
            for seat in group.seats
            if seat.worker != self._settings.worker
        }
        self._attempts = {
            seat.worker: seat.attempt for seat in group.seats if seat.worker != self._me[0]
        }
        if self._settings.master.combine == "mean":
            self._replica.share_updates(1 / len(group.seats))
        fresh = not member.synchronized
        if fresh:
            self._shared.continue_from(group.progress.thresholds)
        try:
            if fresh and group.source < 0:
                self._synchronize(group)
            elif fresh:
                self._take_state(group, group.seats[group.source])
            self._replica.use_learning_rate(group.progress.learning_rate, afresh=fresh)
            self._reshape(group)
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
        self._shared.reset(self._member.average[: self._shared.vector.size])

    def _take_state(self, group: Group, seat: Seat) -> None:
        """Join a running group: load the state of one member."""
        began_s, member = time.monotonic(), self._member
        found = fetch_state(
            (seat.host, seat.port),
            of=(seat.worker, seat.attempt),
            port=self._port,
            size=member.average.size,
            connect_timeout_s=self._settings.master.mesh.connect_timeout_s,
            peer_timeout_s=self._settings.master.mesh.peer_timeout_s,
        )
        member.work[:] = found.vector
        member.keep_average(group.progress)
        self._replica.write(found.vector)
        member.write_extras(found.extras)
        self._replica.iterations = found.iterations
        self._shared.reset(found.vector[: self._shared.vector.size])
        self._clock = max(self._clock, found.clock)
        self._clocks = {worker: found.clocks.get(worker, self._clock) for worker in self._clocks}
        self._mesh.restored(found.versions)
        member.synchronized = True
        self._phases.since(PhaseCode.STATE, began_s)

    def _fetch_missed_state(self) -> None:
        """Load a neighbor's full state if this worker missed more updates than neighbors keep."""
        while self._behind and self._group is not None:
            origin = self._behind.popleft()
            for seat in self._group.seats:
                if (seat.worker, seat.attempt) == origin:
                    try:
                        self._take_state(self._group, seat)
                    except NetworkError:
                        _log.warning("worker %d could not catch up", self._me[0], exc_info=True)

    def _reshape(self, group: Group) -> None:
        self._mesh.reshape(
            group.seats,
            mode=self._settings.master.mesh.mode,
            max_downstreams=self._settings.master.mesh.max_downstreams,
        )

    def _snapshot(self) -> Snapshot:
        """Return the state for a new worker: the shared parameters, without unsent updates."""
        member = self._member
        vector = self._replica.state.read(updater=True)
        vector[: self._shared.vector.size] = self._shared.vector
        return Snapshot(
            vector=vector,
            extras=pack_arrays(member.extras()),
            iterations=self._replica.iterations,
            clock=self._clock,
            clocks={**self._clocks, self._me[0]: _RESTING if self._resting else self._clock},
            versions=self._mesh.taken_versions,
        )

    def _send_snapshot(self) -> None:
        """Send the driver the shared state, on the reader thread, even within a step."""
        if self._member.synchronized:
            self._member.send_vector(self._snapshot().vector)

    # -- pieces -----------------------------------------------------------------------------

    def _ask(self, *, wants_more: bool = True) -> None:
        """Report the current piece, if any, and request another."""
        piece = self._piece
        self._control.send(
            "work",
            {
                "piece": None if piece is None else piece.span,
                "minibatches": 0 if piece is None else piece.done,
                "examples": 0 if piece is None else piece.examples,
                "iterations": self._replica.iterations,
                "wants_more": wants_more,
                "wanted": self._wanted,
                "thresholds": self._shared.adapted,
            },
        )

    def _begin_piece(self, span: Span) -> None:
        """Start a piece; the coordinator sends it only after the previous one was reported."""
        self._piece, self._resting = _Piece(span), False
        if span.epoch > self._epoch:
            self._epoch, self._in_epoch = span.epoch, 0
            self._replica.reset_metrics()

    def _end_piece(self, *, wants_more: bool = True) -> None:
        self._ask(wants_more=wants_more)
        if self._piece is not None:
            for _, gathered in self._piece.ahead:
                gathered.cancel()
        self._piece = None

    def _rest(self) -> None:
        """Tell the other workers not to wait for this idle worker."""
        if not self._resting:
            self._resting = True
            self._publish(_RESTING, np.empty(0, np.int32))

    def _fetch(self, piece: "_Piece") -> tuple[int, list[Block]]:
        """Return the minibatches of the next message; prefetch the following ones."""
        ahead = self._settings.master.prefetch_batches
        while piece.asked < piece.span.size and (
            not piece.ahead or piece.asked - piece.done < self._per_message + ahead
        ):
            start = piece.span.start + piece.asked
            size = min(self._per_message, piece.span.size - piece.asked)
            part = piece.span._replace(start=start, stop=start + size)
            piece.ahead.append((size, self._feeder.submit(self._minibatches.gather, part)))
            piece.asked += size
        size, blocks = piece.ahead.popleft()
        return size, blocks.result()

    def _step(self) -> None:
        """Train the minibatches of one message and send the update."""
        with self._control.activity.compute():
            self._compute_step()

    def _compute_step(self) -> None:
        piece, histograms = self._piece, self._member.histograms
        assert piece is not None
        assert self._group is not None
        is_due = histograms.is_due(self._group, self._clock + 1)
        sampled = histograms.sample() if is_due else None
        began_s = time.monotonic()
        try:
            size, blocks = self._fetch(piece)
            fetched_s = self._phases.since(self._data_phase, began_s)
            self._data_phase = PhaseCode.DATA
            before = self._parameters_now_and_then()
            done = self._minibatches.train(
                blocks, piece.span, data_s=fetched_s - began_s, done=piece.done
            )
            if before is not None:
                done.readings["update_ratio"] = update_ratio(
                    before, self._parameters(), minibatches=size
                )
        except NetworkError:
            self._end_piece()  # the data's owner has disconnected
            return
        except Exception as error:
            self._fail(error)
            return
        step_s = (time.monotonic() - began_s) / size
        residual = self._residual_columns()
        trained_s = time.monotonic()
        encoded = self._shared.encode(step=self._messages)
        self._messages += 1
        self._clock += size
        self._since_meeting += size
        self._in_epoch += size
        encoded_s = self._phases.since(PhaseCode.ENCODE, trained_s)
        self._publish(self._clock, encoded.words)
        ended_s = self._phases.since(PhaseCode.SEND, encoded_s)
        piece.done, piece.examples = piece.done + size, piece.examples + int(done.examples.sum())
        self._member.rows.add(
            done,
            epoch=piece.span.epoch + 1,
            round=self._in_epoch,
            seconds=ended_s - began_s,
            columns=self._encoding_columns(encoded, residual, size),
        )
        cost_s, self._absorbed_s = ended_s - trained_s + self._absorbed_s, 0.0
        before_s = cost_s if math.isnan(self._message_s) else self._message_s
        self._message_s = before_s + _LATEST * (cost_s - before_s)
        self._adapt(step_s)
        if sampled is not None:
            moment = {"step": self._clock, "epoch": piece.span.epoch + 1, "minibatches": size}
            histograms.take(histograms.sample(), sampled, **moment)
        if piece.done == piece.span.size:
            self._end_piece()
        self._collect()

    def _parameters_now_and_then(self) -> Vector | None:
        """Return a sample of the parameters if the next update is to be measured, else None."""
        now_s = time.monotonic()
        if now_s - self._measured_s < MEASURE_EVERY_S:
            return None
        self._measured_s = now_s
        return self._parameters()

    def _parameters(self) -> Vector:
        return sample_of(self._replica.state.trainable_views())

    def _adapt(self, step_s: float) -> None:
        """Adapt the minibatches per message and per piece to the measured step time."""
        settings = self._settings
        if settings.master.minibatches_per_message is None:
            self._per_message = gathered(step_s, self._message_s, settings.master.max_staleness)
        if settings.master.piece_minibatches is None:
            self._wanted = max(self._per_message, int(PIECE_S / step_s))

    def _fail(self, error: Exception) -> None:
        """Report an error; undo the last minibatch, so that earlier work is kept."""
        group, member = self._group, self._member
        assert group is not None
        self._reset_to_shared()
        self._end_piece(wants_more=False)
        member.report(group, "failed", member.failure_of(error))

    def _reset_to_shared(self) -> None:
        """Reset to the shared state; this worker then has weight 0 in the next average."""
        # Including the optimizer's moments, which may be NaN.
        state = self._member.average.copy()
        state[: self._shared.vector.size] = self._shared.vector
        self._replica.write(state)
        self._since_meeting = 0

    def _collect(self) -> None:
        """Run the garbage collector periodically, between minibatches."""
        settings, now_s = self._settings, time.monotonic()
        if (
            settings.master.periodic_gc
            and now_s - self._collected_s > settings.master.periodic_gc_interval_s
        ):
            gc.collect()
            self._collected_s = now_s

    # -- updates ----------------------------------------------------------------------------

    def _publish(self, clock: int, words: NDArray[np.int32]) -> None:
        payload = _CLOCK.pack(clock) + words.tobytes()
        self._sequence = self._mesh.publish(payload)

    def _absorb(self) -> None:
        began_s = time.monotonic()
        messages: list[NDArray[np.int32]] = []
        for update in self._mesh.take():
            (clock,) = _CLOCK.unpack_from(update.payload)
            worker, attempt = update.origin
            if self._attempts.get(worker) == attempt:  # ignore clocks of earlier attempts
                self._clocks[worker] = clock
            words = np.frombuffer(update.payload, np.int32, offset=_CLOCK.size)
            if words.size:
                messages.append(words)
        self._shared.absorb(messages)
        if messages:
            self._absorbed_s += self._phases.since(PhaseCode.APPLY, began_s) - began_s

    @property
    def _staleness(self) -> int:
        """Minibatches by which the slowest other worker is behind, as far as known."""
        return max(0, self._clock - min(self._clocks.values(), default=self._clock))

    def _is_within_staleness(self) -> bool:
        """Return False after a short wait if slower workers exceed the staleness limit."""
        limit = self._settings.master.max_staleness
        if limit is None or self._staleness <= limit:
            return True
        began_s = time.monotonic()
        self._mesh.wait(_IDLE_S)
        self._phases.since(PhaseCode.WAIT, began_s, joins=True)
        return False

    def _residual_columns(self) -> dict[str, float]:
        """Return statistics of the residual before encoding; NaN if not due."""
        debug, now_s = self._settings.master.encoding_debug_mode, time.monotonic()
        if not (debug or now_s >= self._statistics_s):
            return dict.fromkeys(("residual_p50", "residual_p99", "residual_max"), np.nan)
        statistics = self._shared.statistics(exact=debug)
        took_s = time.monotonic() - now_s
        self._statistics_s = now_s + max(_STATISTICS_S, took_s / _STATISTICS_SHARE)
        if debug:
            self._control.send("debug", {"step": self._clock + 1, "line": statistics.line()})
        median, _, p99, *_ = statistics.percentiles
        return {"residual_p50": median, "residual_p99": p99, "residual_max": statistics.maximum}

    def _encoding_columns(
        self, encoded: Encoded, residual: dict[str, float], size: int
    ) -> dict[str, NDArray[np.float32]]:
        """Return log columns of a message of `size` minibatches; the last row has its bytes."""
        values = {
            "threshold": encoded.thresholds[0],
            "sparsity": encoded.selected / encoded.size,
            "message_bytes": encoded.size_bytes + _CLOCK.size,
            "staleness": self._staleness,
            **residual,
        }
        columns = {name: np.full(size, value, np.float32) for name, value in values.items()}
        columns["message_bytes"][:-1] = 0
        return columns

    # -- meetings ---------------------------------------------------------------------------

    def _meet(self, order: Message) -> None:
        """Interrupt the piece and average with the other workers, so that states are equal."""
        group = Group.from_dict(order.fields["group"])
        if self._piece is not None:
            self._end_piece(wants_more=False)

        def average(ring: Ring) -> Ending:
            self._average(ring, group, validate=order.fields["validate"])
            if order.fields["checkpoint"]:
                self._member.send_checkpoint(ring, group)
            return "met"

        ending, failure = self._member.meet(group, average)
        self._met = ending == "met"
        if self._met:
            self._since_meeting = 0
        # A worker that missed too many updates catches up before the next averaging.
        self._fetch_missed_state()
        self._states.serve(self._snapshot)
        self._member.report(group, ending, failure)

    def _deliver(self) -> None:
        """Send the driver the last average, or this replica's state if averaging failed."""
        member = self._member
        if not self._met:
            # The replica's variables include updates that have not been sent.
            member.work[:] = self._replica.state.read(updater=True)
            if not np.isfinite(member.work).all():
                member.work[:] = self._snapshot().vector
            progress = replace(member.progress, iterations=self._replica.iterations)
            member.keep_average(progress)
        member.deliver()

    def _average(self, ring: Ring, group: Group, *, validate: bool) -> None:
        member, replica, shared = self._member, self._replica, self._shared
        began_s = time.monotonic()
        if not replica.state.is_finite(updater=True):
            self._reset_to_shared()
            if self._settings.stop_at_non_finite:
                raise non_finite_state(group.progress.epoch, worker=self._settings.worker)
        mine = _Meeting(
            sequence=self._sequence,
            clock=self._clock,
            minibatches=self._since_meeting,
            iterations=replica.iterations,
        )
        metas = exchanged(ring, mine, _MEETING)
        self._phases.since(PhaseCode.WAIT, began_s)
        self._catch_up(ring, group, [meta.sequence for meta in metas])
        met_s = time.monotonic()
        weights = [meta.minibatches for meta in metas]
        if not sum(weights):
            weights = [1] * ring.size
        size, share = shared.vector.size, weights[ring.rank] / sum(weights)
        residual = shared.residual()
        mean_residual = residual / ring.size
        member.mean(ring, weights)
        np.multiply(shared.vector, share, out=member.work[:size])
        if ring.size > 1:
            ring.all_reduce(member.work)
            ring.all_reduce(mean_residual)
        averaged_s = self._phases.since(PhaseCode.AVERAGE, met_s)
        shared.reset(member.work[:size])
        # Validate, keep and deliver the mean of the replicas, which includes unsent updates. The
        # full sum of residuals would overshoot, because they point in similar directions.
        member.work[:size] -= mean_residual
        replica.write(member.work)
        replica.iterations = max(meta.iterations for meta in metas)
        self._clock = max(meta.clock for meta in metas)
        self._clocks = dict.fromkeys(self._clocks, self._clock)
        self._resting = False
        progress = replace(group.progress, iterations=replica.iterations)
        member.keep_average(progress)
        self._phases.since(PhaseCode.APPLY, averaged_s)
        try:
            if validate:
                member.validate(ring)
        finally:
            replica.write(np.subtract(shared.vector, residual, out=residual))

    def _catch_up(self, ring: Ring, group: Group, sequences: list[int]) -> None:
        """Apply all updates that the other workers sent before the averaging."""
        versions = {
            (seat.worker, seat.attempt): sequence
            for seat, sequence in zip(group.seats, sequences, strict=True)
            if sequence and seat.worker != self._settings.worker
        }
        began_s = time.monotonic()
        timeout_s = self._settings.master.mesh.peer_timeout_s
        deadline = began_s + timeout_s
        while not self._mesh.wait_for(versions, timeout_s=_LOOK_S):
            self._control.check()
            if self._behind or time.monotonic() > deadline:
                raise NetworkError(
                    f"worker {self._settings.worker} waited {timeout_s:g} s "
                    "for updates sent by other workers before averaging."
                )
        ring.all_gather(b"")  # wait for workers with more updates to apply
        self._phases.since(PhaseCode.WAIT, began_s, joins=True)
        self._absorb()


class _Piece:
    """A piece of work: its progress and prefetched minibatches."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.done = self.examples = self.asked = 0
        self.ahead: deque[tuple[int, Future[list[Block]]]] = deque()  # minibatches, their data


class _Meeting(NamedTuple):
    """A worker's report, exchanged before averaging."""

    sequence: int  # of its last update
    clock: int
    minibatches: int  # since the last averaging
    iterations: int


_MEETING = struct.Struct("<qqqq")
