"""Sockets, threads and clock of a coordinator."""

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Address, Connection, Listener
from sparkwright.mesh.framing import Message, encode_head
from sparkwright.mesh.relay import ACCEPT, CONNECT, CONNECT_BACK, Relay, refuse
from sparkwright.workers.failure import failure_of
from sparkwright.workers.protocol import Group, Progress

from ._decisions import (
    AbstractOrder,
    Action,
    Drop,
    EndRun,
    KeepCheckpoint,
    MessageReceived,
    Notification,
    ProgressSettled,
    RequestResult,
    ResetHistory,
    SendGroup,
    WorkerDisconnected,
)
from ._observations import (
    CheckpointReceived,
    ConnectionLost,
    Event,
    ResultReceived,
    StopRequested,
    TimerFired,
    WorkerRegistered,
    is_finite,
    observation_of,
    order_of,
    registration_of,
)
from ._outbox import Peer
from ._run_rules import RunRules
from ._watching import DriverClock

_TICK_S = 0.2
# A longer gap between two ticks means that the whole process was suspended.
_LONGEST_GAP_S = 1.0
# Maximum time to send queued messages when the server closes.
_SEND_S = 2.0
_log = logging.getLogger(__name__)


# Receives notifications, and the worker's message if there is one. The server holds its lock, so it
# must return quickly.
Notify = Callable[[Notification, Message | None], None]


class CoordinatorServer:
    """Listens for the workers of one run and performs the actions of its coordinator."""

    def __init__(
        self,
        coordinator: RunRules[Any],
        notify: Notify,
        *,
        secret: bytes,
        host: str,
        ports: Sequence[int],
        peer_timeout_s: float,  # of silence, after which a worker is lost
        start: Callable[[], tuple[dict[str, Any], Sequence[Any]]],  # (fields, payload)
        name: str,  # prefix of the threads' names
        encrypt: bool = False,
        relay_timeout_s: float | None = None,  # None: workers connect to each other directly
    ) -> None:
        """Open the port and start the threads."""
        self.result: Message | None = None  # with the latest delivered vector and counters
        self.rejected = False  # whether a delivered state had NaN or infinite values
        self._coordinator, self._notify, self._start = coordinator, notify, start
        self._peer_timeout_s = peer_timeout_s
        self._lock = threading.RLock()
        self._peers: dict[int, Peer] = {}
        self._threads: list[threading.Thread] = []
        self._silent: set[int] = set()  # connections closed by the driver
        self._count = 0
        self._closed = threading.Event()
        self._have_result = threading.Event()
        self._checkpoint: Message | None = None
        self._last_group: tuple[Group, bytes] | None = None  # the last group and its encoding
        self._ended = False
        self._name = name
        self._relay = (
            None if relay_timeout_s is None else Relay(timeout_s=relay_timeout_s, name=name)
        )
        self.clock = DriverClock(time.monotonic(), longest_gap_s=_LONGEST_GAP_S)
        self._listener = Listener(
            secret=secret,
            host=host,
            ports=ports,
            on_connection=self._accept,
            name=f"{name}-port",
            encrypt=encrypt,
        )
        self.address: Address = self._listener.address
        self._timer = threading.Thread(target=self._tick, name=f"{name}-timer", daemon=True)
        self._timer.start()

    def stop(self) -> None:
        """End the run with the next averaging."""
        self.handle(StopRequested())

    @property
    def present(self) -> frozenset[int]:
        """The connected workers."""
        with self._lock:
            return frozenset(self._coordinator.present)

    def snapshot(self, timeout_s: float) -> None:
        """Request the last average from the workers, even within a step; wait for `result`."""
        with self._lock:
            for peer in self._peers.values():
                if peer.registered is not None:
                    peer.send("snapshot")
        self._have_result.wait(timeout_s)

    def request_histograms(self) -> bool:
        """Request histograms after the next averaging; return False without workers."""
        # From all workers, because the group determines which one takes them.
        with self._lock:
            peers = [peer for peer in self._peers.values() if peer.registered]
            for peer in peers:
                peer.send("histograms")
            return bool(peers)

    def silence_s(self) -> dict[int, float]:
        """Return worker -> seconds since its last message."""
        now_s = time.monotonic()
        with self._lock:
            return {
                peer.registered.worker: now_s - peer.connection.received_s
                for peer in self._peers.values()
                if peer.registered is not None
            }

    def drain(self, timeout_s: float) -> None:
        """Wait until all messages of disconnected workers have been processed."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def close(self) -> None:
        """Close every connection and end every thread."""
        self._closed.set()
        self._listener.close()
        if self._relay is not None:
            self._relay.close()
        with self._lock:
            peers = list(self._peers.values())
        for peer in peers:
            peer.finish()  # sends queued messages, such as dismissals
        for peer in peers:
            peer.join(_SEND_S)
            peer.connection.close()
        for thread in (self._timer, *self._threads):
            if thread is not threading.current_thread():
                thread.join(timeout=5.0)

    # -- threads ----------------------------------------------------------------------------

    def _accept(self, connection: Connection) -> None:
        with self._lock:
            if self._closed.is_set():
                connection.close()
                return
            self._count += 1
            number = self._count
            self._peers[number] = Peer(connection, name=f"{self._name}-sender")
            thread = threading.Thread(
                target=self._read, args=(number,), name=f"{self._name}-worker", daemon=True
            )
            # Under the lock, because a thread can be joined only after its start.
            self._threads.append(thread)
            thread.start()

    def _read(self, number: int) -> None:
        peer = self._peers[number]
        try:
            while (message := peer.connection.receive()) is not None:
                if self._relay is not None and message.kind in (CONNECT, ACCEPT):
                    return self._hand_over(number, peer, self._relay, message)
                self._take(number, peer, message)
        except (NetworkError, OSError):
            pass  # connection lost
        except Exception:
            # The run continues without this connection.
            _log.warning(
                "%s closed a connection after an invalid message", self._name, exc_info=True
            )
        with self._lock:
            self._peers.pop(number, None)
            silent = number in self._silent
            self._silent.discard(number)
        if self._relay is not None:
            self._relay.lost(number)
        peer.finish()
        peer.connection.close()
        self.handle(ConnectionLost(connection=number, silent=silent))

    def _tick(self) -> None:
        while not self._closed.wait(_TICK_S):
            now_s = self.clock.tick(time.monotonic())
            with self._lock:
                for number, peer in self._peers.items():
                    if peer.alive_s is None or peer.received_s != peer.connection.received_s:
                        peer.received_s, peer.alive_s = peer.connection.received_s, now_s
                    elif now_s - peer.alive_s > self._peer_timeout_s:
                        self._drop(number)
            if self._relay is not None:
                self._relay.expire()
            try:
                self.handle(TimerFired())
            except Exception as error:  # without a timer, no wait of the run would end
                _log.exception("the coordinator failed; the run ends")
                failure = failure_of(error, worker=-1, host="the driver")
                with self._lock:
                    self._perform(EndRun(failure=failure))
                return

    def _drop(self, number: int) -> None:
        """Close a connection; its reader then reports it lost. Needs the lock."""
        if number in self._peers:
            self._silent.add(number)
            self._peers[number].connection.close()

    def _hand_over(self, number: int, peer: Peer, relay: Relay, message: Message) -> None:
        """Hand a worker's additional connection over to the relay."""
        fields = message.fields
        if peer.registered is not None:
            raise NetworkError(
                f"the connection of a registered worker cannot be relayed. Received: {fields}."
            )
        if message.kind == ACCEPT:
            ticket = int(fields["ticket"])
            self._release(number, peer)
            return relay.accept(peer.connection, ticket)
        (asker, of_asker), (worker, attempt) = fields["from"], fields["to"]
        with self._lock:
            present = self._coordinator.present
            if present[asker].attempt != of_asker:
                raise NetworkError(f"attempt {of_asker} of worker {asker} is not registered.")
            self._release(number, peer)
            other = present.get(worker)
            if other is not None and other.attempt == attempt:
                ticket = relay.wait(peer.connection, awaited=other.connection)
                return self._send(other.connection, CONNECT_BACK, {"ticket": ticket})
        return refuse(peer.connection, f"attempt {attempt} of worker {worker} is not in the run")

    def _release(self, number: int, peer: Peer) -> None:
        with self._lock:
            self._peers.pop(number, None)
        peer.finish()

    # -- messages in ------------------------------------------------------------------------

    def _take(self, number: int, peer: Peer, message: Message) -> None:
        kind, registered = message.kind, peer.registered
        if kind == "register":
            workers = self._coordinator.workers
            peer.registered = registration_of(number, message, workers=workers)
            self.handle(peer.registered)
        elif kind == "clock":
            asked_s, came_s = float(message.fields["asked_s"]), peer.connection.received_s
            answered_s = time.monotonic()
            times = {"asked_s": asked_s, "came_s": came_s, "answered_s": answered_s}
            peer.send("clock", times)
        elif registered is None:
            if kind != "alive":  # the worker is still building its network
                raise NetworkError(f"a worker must register first. Received: {kind!r}.")
        elif kind == "fetch_start":
            peer.put(lambda: peer.connection.send("start", *self._start()))
        elif kind == "checkpoint":
            self._take_checkpoint(message)
        elif kind == "result":
            self._take_result(registered, message)
        else:
            event = observation_of(number, message)
            with self._lock:
                counts = kind == "phases" or self._coordinator.phase not in ("delivering", "over")
                if counts and (event is None or kind == "alive"):
                    self._notify(MessageReceived(worker=registered.worker), message)
                if event is not None:
                    self.handle(event)

    def _take_checkpoint(self, message: Message) -> None:
        progress = Progress.from_dict(message.fields["progress"])
        if not is_finite(message):
            _log.warning(
                "the state after averaging %d has NaN or infinite values and is not kept",
                progress.averagings,
            )
            return
        with self._lock:
            self._checkpoint = message
            write = bool(message.fields["write"])
            self.handle(CheckpointReceived(progress=progress, write=write))

    def _take_result(self, registered: WorkerRegistered, message: Message) -> None:
        with self._lock:
            if self._coordinator.present.get(registered.worker) != registered:
                return  # a worker that was replaced
            if not is_finite(message):
                self.rejected = True
            elif self.result is None or order_of(message) >= order_of(self.result):
                self.result = message
        self._have_result.set()
        self.handle(ResultReceived(connection=registered.connection))

    # -- decisions out ----------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Have the coordinator process an event, and perform its actions."""
        with self._lock:
            rules = self._coordinator
            # At a timer, too: a worker may have to leave its slot to another one.
            ends = isinstance(event, ConnectionLost | TimerFired)
            before = rules.present.keys() if ends else set[int]()
            actions = rules.handle(event, now_s=self.clock.at(time.monotonic()))
            if not self._ended:
                for worker in before - rules.present.keys():
                    self._notify(WorkerDisconnected(worker=worker), None)
                # A refused attempt must not overwrite the status of the connected worker.
                if isinstance(event, WorkerRegistered) and event == rules.present.get(event.worker):
                    self._notify(event, None)
            regrouped = rules.exact and rules.generation > 1
            settled = (RequestResult, SendGroup) if regrouped else RequestResult
            if any(isinstance(action, settled) for action in actions):
                self._notify(ProgressSettled(progress=rules.progress, exact=rules.exact), None)
            for action in actions:
                self._perform(action)

    def _perform(self, action: Action) -> None:
        match action:
            case SendGroup(connection=number, group=group):
                # Encoded once for all workers, because it lists all of them.
                if self._last_group is None or self._last_group[0] is not group:
                    self._last_group = group, encode_head("group", group.to_dict(), 0)
                if (peer := self._peers.get(number)) is not None:
                    peer.send_encoded(self._last_group[1])
            case AbstractOrder():
                self._send(action.connection, action.kind, action.content())
            case Drop(connection=number):
                self._drop(number)
            case KeepCheckpoint():
                if self._checkpoint is not None:
                    self._notify(action, self._checkpoint)
                    self._checkpoint = None
            case ResetHistory():
                progress = self._coordinator.progress
                if progress.averagings:
                    _log.warning(
                        "all workers were lost at the same time; the latest state is the driver's "
                        "copy of averaging %d",
                        progress.averagings,
                    )
                    self._notify(ProgressSettled(progress=progress, exact=True), None)
                else:
                    _log.warning("all workers were lost before the first averaging")
                    self._notify(action, None)
            case _:
                self._ended |= isinstance(action, EndRun)
                self._notify(action, None)

    def _send(self, number: int, kind: str, fields: dict[str, Any]) -> None:
        if (peer := self._peers.get(number)) is not None:
            peer.send(kind, fields)
