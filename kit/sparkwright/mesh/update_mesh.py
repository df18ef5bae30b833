"""The mesh over TCP: sockets and threads around a `Peer`."""

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

from sparkwright.errors import ConfigurationError, NetworkError

from ._mesh_link import CHUNK_BYTES, MeshLink
from ._messages import MAX_BYTES, MAX_MESSAGES, Origin, Payload, Update, fields_of, from_frame
from ._peer import Action, CatchUp, Deliver, Drop, Peer, Send
from .connection import Connection
from .framing import Message, encode_head
from .port import PeerPort
from .topology import MAX_DOWNSTREAMS, Seat, Topology

_INTRODUCTION, _WELCOME = "mesh", "welcome"
_MAX_EARLY = 64
_ATTEMPT_S = 2.0
_LONGEST_PAUSE_S = 1.0
_JOIN_S = 5.0


class UpdateMesh:
    """Exchange updates between the workers of a run, over the connections of a `PeerPort`.

    Every update reaches every other worker exactly once, and each worker's updates arrive in
    order, even if connections break; see `Peer`. All methods are thread-safe.

    Backpressure: a worker stops reading while its inbox is full, so its neighbors block in
    `publish`. To avoid deadlock, it keeps reading while it blocks itself in `publish`, `wait_for`
    or `reading_all`. A neighbor whose messages are left unread does not time out.
    """

    def __init__(
        self,
        port: PeerPort,
        *,
        me: Origin,  # (worker, attempt); must not have been used before
        name: str,
        # Of a neighbor's send queue, else `publish` blocks; of the inbox.
        max_pending_bytes: int = 64 << 20,
        heartbeat_s: float = 1.0,  # between comparisons of versions
        peer_timeout_s: float = 15.0,  # without bytes from or to a neighbor, which is then dropped
        connect_timeout_s: float = 30.0,  # of one attempt
        chunk_bytes: int = CHUNK_BYTES,
        max_log_messages: int = MAX_MESSAGES,  # updates kept for retransmission
        max_log_bytes: int = MAX_BYTES,
        # On a mesh thread; fetch this neighbor's state, then call `restored`.
        on_catch_up: Callable[[Origin], None] = lambda _: None,
    ) -> None:
        """Register with `port`; start without neighbors."""
        self.me, self.on_catch_up = me, on_catch_up
        self._port, self._name = port, name
        self._max_pending_bytes, self._chunk_bytes = max_pending_bytes, chunk_bytes
        self._peer_timeout_s, self._connect_timeout_s = peer_timeout_s, connect_timeout_s
        self._peer = Peer(
            me,
            # The timer thread may fire slightly early.
            heartbeat_s=heartbeat_s / 2,
            timeout_s=peer_timeout_s,
            max_log_messages=max_log_messages,
            max_log_bytes=max_log_bytes,
        )
        self._lock = threading.RLock()
        self._news, self._room = threading.Condition(self._lock), threading.Condition(self._lock)
        self._closed = threading.Event()
        self._links: dict[Origin, MeshLink] = {}
        self._newest: dict[int, int] = {}  # worker -> its newest known attempt
        self._upstream: Seat | None = None
        self._awaited: frozenset[Origin] = frozenset()
        self._early: dict[Origin, Connection] = {}  # arrived before the matching `reshape`
        self._dial: _Dial | None = None
        self._inbox: list[Update] = []
        self._inbox_bytes = 0
        self._waits = 0  # running waits of this worker for other workers
        self._space = threading.Condition(self._lock)  # in the inbox
        self._taken: dict[Origin, int] = {}
        self._threads: list[threading.Thread] = []
        self._start("timer", self._keep_time, heartbeat_s)
        port.on(_INTRODUCTION, self._arrived)

    # -- API of the worker ------------------------------------------------------------------

    def reshape(
        self, seats: Sequence[Seat], *, mode: str, max_downstreams: int = MAX_DOWNSTREAMS
    ) -> None:
        """Join the tree of `seats`; call it with the same sequence on every worker.

        Returns immediately. Connections to remaining neighbors are kept. New neighbors are
        connected on threads, with retries until the next `reshape`.
        """
        members = tuple(seat.worker for seat in seats)
        topology = Topology(members=members, mode=mode, max_downstreams=max_downstreams)
        places = {seat.worker: seat for seat in seats}
        if self.me not in {seat.origin for seat in seats}:
            raise ConfigurationError(
                f"`seats` must contain this worker, {self.me}. Received: seats={list(seats)}."
            )
        upstream = topology.upstream(self.me[0])
        with self._lock:
            if self._closed.is_set():
                return
            for seat in seats:
                self._newest[seat.worker] = max(seat.attempt, self._newest.get(seat.worker, 0))
            self._upstream = None if upstream is None else places[upstream]
            self._awaited = frozenset(places[w].origin for w in topology.downstreams(self.me[0]))
            wanted = {places[worker].origin for worker in topology.neighbors(self.me[0])}
            for link in list(self._links.values()):
                if link.origin not in wanted:
                    self._lose(link)
            early, self._early = self._early, {}
            for origin, connection in early.items():
                if origin in self._awaited:
                    self._attach(origin, connection, welcome=True)
                else:
                    connection.close()
            self._dial_upstream()

    def publish(self, payload: bytes) -> int:
        """Send an update to all other workers; return its sequence number, from 1.

        Blocks while a neighbor's send queue exceeds `max_pending_bytes`. Drops a neighbor that
        receives nothing for `peer_timeout_s`.
        """
        with self._lock:
            with self.reading_all():
                self._wait_for_room(list(self._links.values()))
            self._carry_out(self._peer.published(payload))
            sequence = self._taken[self.me] = self._peer.published_count
            self._news.notify_all()
        return sequence

    def take(self) -> list[Update]:
        """Return the updates delivered since the last call, in order for each origin.

        Call it often: a full inbox blocks the neighbors.
        """
        with self._lock:
            taken, self._inbox = self._inbox, []
            self._empty_inbox()
            for update in taken:
                self._taken[update.origin] = update.sequence
        return taken

    def wait(self, timeout_s: float) -> bool:
        """Wait until the inbox is not empty or the mesh is closed; return whether it is not."""
        with self._lock:
            self._news.wait_for(lambda: self._inbox or self._closed.is_set(), timeout_s)
            return bool(self._inbox)

    def wait_for(self, versions: Mapping[Origin, int], *, timeout_s: float) -> bool:
        """Wait until all updates up to `versions` are delivered; return whether they are.

        Also returns when the mesh is closed.
        """
        with self._lock, self.reading_all():
            self._news.wait_for(
                lambda: self._peer.has(versions) or self._closed.is_set(), timeout_s
            )
            return self._peer.has(versions)

    @contextlib.contextmanager
    def reading_all(self) -> Generator[None]:
        """Keep reading even if the inbox is full, while this worker waits for other workers."""
        with self._lock:
            self._waits += 1
            self._space.notify_all()
        try:
            yield
        finally:
            with self._lock:
                self._waits -= 1

    def restored(self, versions: Mapping[Origin, int]) -> None:
        """Record that this worker's state was replaced by one that includes `versions`.

        Clears the inbox and delivers later updates again, including this worker's own.
        """
        with self._lock:
            self._inbox.clear()
            self._empty_inbox()
            self._taken = dict(versions)
            self._carry_out(self._peer.restored(versions))
            self._news.notify_all()

    @property
    def taken_versions(self) -> dict[Origin, int]:
        """Origin -> last sequence number published, restored or returned by `take`.

        The state of a worker that applies all taken updates includes exactly these.
        """
        with self._lock:
            return dict(self._taken)

    def close(self) -> None:
        """Close all connections and stop all threads; the port stays open."""
        self._port.off(_INTRODUCTION)
        with self._lock:
            self._closed.set()
            self._stop_dialing()
            for link in list(self._links.values()):
                self._lose(link)
            for connection in self._early.values():
                connection.close()
            self._early.clear()
            self._news.notify_all()
            self._room.notify_all()
            self._space.notify_all()
            threads = list(self._threads)
        for thread in threads:
            if thread is not threading.current_thread():
                thread.join(_JOIN_S)

    # -- membership changes; with the lock held --------------------------------------------

    def _attach(self, origin: Origin, connection: Connection, *, welcome: bool) -> None:
        for link in list(self._links.values()):
            if link.origin[0] == origin[0]:
                self._lose(link, for_good=True)
        link = self._links[origin] = MeshLink(
            origin, connection, self._lock, chunk_bytes=self._chunk_bytes
        )
        if welcome:
            link.put(encode_head(_WELCOME, {"from": self.me}, 0))
        self._carry_out(self._peer.neighbor_up(origin))
        self._start("sender", self._send_to, link)
        self._start("reader", self._read_from, link)

    def _lose(self, link: MeshLink, *, for_good: bool = False) -> None:
        if link.gone:
            return
        link.give_up()
        del self._links[link.origin]
        self._carry_out(self._peer.neighbor_down(link.origin))
        self._room.notify_all()
        self._space.notify_all()
        if not for_good:
            self._dial_upstream()

    def _carry_out(self, actions: Iterable[Action]) -> list[MeshLink]:
        """Carry out the peer's actions; return the links with newly queued messages."""
        used: list[MeshLink] = []
        for action in actions:
            match action:
                case Send(neighbors=neighbors, message=message):
                    payload: Payload = message.payload if isinstance(message, Update) else b""
                    head = encode_head(*fields_of(message), len(payload))
                    for link in filter(None, map(self._links.get, neighbors)):
                        link.put(head, payload)
                        used.append(link)
                case Deliver(update=update):
                    self._inbox.append(update)
                    self._inbox_bytes += len(update.payload)
                    self._news.notify_all()
                case CatchUp(neighbor=neighbor):
                    self._start("catch-up", lambda n: self.on_catch_up(n), neighbor)
                case Drop(neighbor=neighbor):
                    if (link := self._links.get(neighbor)) is not None:
                        self._lose(link)
        return used

    def _wait_for_room(self, links: Iterable[MeshLink]) -> None:
        """Wait until all send queues of `links` have room; drop links that time out."""
        for link in links:
            while link.pending_bytes > self._max_pending_bytes and not self._closed.is_set():
                remaining_s = link.moved_s + self._peer_timeout_s - time.monotonic()
                if remaining_s <= 0:
                    self._lose(link)
                    break
                self._room.wait(remaining_s)

    def _wait_for_space(self, link: MeshLink) -> None:
        """Wait until the inbox has room, or this worker waits for other workers."""
        self._space.wait_for(
            lambda: (
                self._inbox_bytes <= self._max_pending_bytes
                or self._waits
                or link.gone
                or self._closed.is_set()
            )
        )

    def _empty_inbox(self) -> None:
        self._inbox_bytes = 0
        self._space.notify_all()

    def _dial_upstream(self) -> None:
        seat = self._upstream
        if self._dial is not None and self._dial.seat == seat:
            return
        self._stop_dialing()
        if seat is not None and seat.origin not in self._links and not self._closed.is_set():
            self._dial = _Dial(seat)
            self._start("dial", self._reach, self._dial)

    def _stop_dialing(self) -> None:
        if self._dial is not None:
            self._dial.stop()
            self._dial = None

    # -- threads ----------------------------------------------------------------------------

    def _start(self, what: str, work: Callable[[Any], None], argument: Any) -> None:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = threading.Thread(
            target=work, args=(argument,), name=f"{self._name}-mesh-{what}", daemon=True
        )
        thread.start()
        self._threads.append(thread)

    def _send_to(self, link: MeshLink) -> None:
        try:
            while link.send_some(self._room):
                pass
        except OSError:
            pass  # the reader thread handles the error
        with self._lock:
            self._lose(link)

    def _read_from(self, link: MeshLink) -> None:
        try:
            while (frame := link.connection.receive()) is not None:
                link.busy = True
                message = from_frame(frame)
                with self._lock:
                    if link.gone:
                        break
                    used = self._carry_out(self._peer.received(link.origin, message))
                    # Backpressure on a neighbor that sends faster than this worker can forward.
                    # Excludes messages back to that neighbor, which could deadlock.
                    self._wait_for_room(other for other in used if other is not link)
                    self._wait_for_space(link)
                del frame, message
                link.busy = False
        except (NetworkError, OSError):
            pass
        with self._lock:
            self._lose(link)

    def _keep_time(self, heartbeat_s: float) -> None:
        while not self._closed.wait(heartbeat_s):
            with self._lock:
                for link in self._links.values():
                    received_s = link.connection.received_s
                    if link.busy or received_s > link.noticed_s:
                        self._peer.received_from(link.origin)
                    link.noticed_s = received_s
                self._carry_out(self._peer.timer_fired(time.monotonic()))

    def _arrived(self, connection: Connection, hello: Message) -> None:
        try:
            worker, attempt = (int(hello.fields[key]) for key in ("worker", "attempt"))
            expected = tuple(hello.fields["to"]) == self.me
        except (KeyError, TypeError, ValueError):
            connection.close()
            return
        origin = (worker, attempt)
        with self._lock:
            stale = attempt < self._newest.get(worker, 0) or not expected
            if stale or self._closed.is_set():
                connection.close()
            elif origin in self._awaited:
                self._attach(origin, connection, welcome=True)
            elif len(self._early) < _MAX_EARLY or origin in self._early:
                # Other workers may receive a new tree before this worker does.
                if (before := self._early.pop(origin, None)) is not None:
                    before.close()
                self._early[origin] = connection
            else:
                connection.close()

    def _reach(self, dial: "_Dial") -> None:
        """Connect to the upstream, with retries until it succeeds or the upstream changes."""
        pause_s = 0.05
        while not dial.stopped.is_set():
            connection = None
            with contextlib.suppress(NetworkError, OSError):
                connection = self._attempt(dial)
            with self._lock:
                if connection is not None and not dial.stopped.is_set():
                    self._dial = None
                    self._attach(dial.seat.origin, connection, welcome=False)
                    return
            dial.stopped.wait(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _attempt(self, dial: "_Dial") -> Connection:
        """Open a connection that the upstream has accepted."""
        seat = dial.seat
        connection = self._port.connect(
            (seat.host, seat.port),
            worker=seat.worker,
            timeout_s=min(_ATTEMPT_S, self._connect_timeout_s),
            give_up=dial.stopped.is_set,
        )
        try:
            dial.use(connection)
            worker, attempt = self.me
            connection.send(
                _INTRODUCTION, {"worker": worker, "attempt": attempt, "to": seat.origin}
            )
            connection.socket.settimeout(_ATTEMPT_S)
            answer: Message | None = None
            while not dial.stopped.is_set():
                with contextlib.suppress(TimeoutError):  # the upstream may lack the new tree
                    answer = connection.receive(max_payload_bytes=0)
                    break
            if answer is None or answer.kind != _WELCOME:
                raise NetworkError("the upstream rejected this worker.")
            connection.socket.settimeout(None)
        except BaseException:
            connection.close()
            raise
        return connection


class _Dial:
    """A running connection attempt to an upstream."""

    def __init__(self, seat: Seat) -> None:
        self.seat = seat
        self.stopped = threading.Event()
        self._connection: Connection | None = None
        self._lock = threading.Lock()

    def use(self, connection: Connection) -> None:
        """Register a connection that `stop` closes."""
        with self._lock:
            if self.stopped.is_set():
                raise NetworkError("the connection attempt was canceled.")
            self._connection = connection

    def stop(self) -> None:
        with self._lock:
            self.stopped.set()
            if self._connection is not None:
                self._connection.close()
