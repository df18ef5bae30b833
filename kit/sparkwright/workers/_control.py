"""A worker's connection to the coordinator: orders, answers and heartbeats."""

import contextlib
import queue
import sys
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Generator
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Address, Connection, connect
from sparkwright.mesh.framing import Message
from sparkwright.mesh.relay import CONNECT_BACK
from sparkwright.mesh.ring import Ring

HEARTBEAT_S = 1.0
_EVERY_GENERATION = 1 << 62
# Maximum time to send the last average before this process ends.
_FAREWELL_S = 3.0
# Of the stacks that the driver requests from a run without progress.
_CALLS_OF_A_STACK = 8
_LONGEST_STACKS = 1 << 14
_open: "weakref.WeakSet[ControlLine]" = weakref.WeakSet()  # of this process


class Dismissed(Exception):
    """Raised at the end of the run, or if the coordinator has disconnected."""


class Activity:
    """Steps of the training thread, for heartbeats, which alone do not prove progress."""

    def __init__(self) -> None:
        self.steps = 0
        self.computing = False

    @contextlib.contextmanager
    def compute(self) -> Generator[None]:
        """Mark the training thread as computing, not waiting for another process."""
        self.computing = True
        try:
            yield
        finally:
            self.computing = False

    @contextlib.contextmanager
    def wait(self) -> Generator[None]:
        """Mark the training thread as waiting for other workers, within `compute`."""
        before, self.computing = self.computing, False
        try:
            yield
        finally:
            self.computing = before


class CurrentRing:
    """The current ring, and the generations canceled by "regroup"."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ring: Ring | None = None
        self._abandon: Callable[[int], None] | None = None
        self._broken = 0  # all generations up to this one

    def use(self, ring: Ring | None, *, generation: int) -> None:
        """Set the ring of `generation`; None: no current ring."""
        with self._lock:
            if self._ring is None or ring is None:
                self._ring = ring
            if ring is not None and generation <= self._broken:
                ring.abort()

    def on_canceled(self, abandon: Callable[[int], None]) -> None:
        """Call `abandon` with each canceled generation, immediately if there is one already."""
        with self._lock:
            self._abandon = abandon
            if self._broken:
                abandon(self._broken)

    def break_off(self, generation: int = _EVERY_GENERATION) -> None:
        """Abort the ring and cancel generations up to this one."""
        with self._lock:
            self._broken = max(generation, self._broken)
            if self._ring is not None:
                self._ring.abort()
            if self._abandon is not None:
                self._abandon(self._broken)


class ControlLine:
    """Exchange messages with the coordinator on behalf of the training thread."""

    def __init__(self, address: Address, *, secret: bytes, timeout_s: float, name: str) -> None:
        self.activity = Activity()
        self.ring = CurrentRing()  # aborted by "regroup"
        self.stopping = threading.Event()  # the run ends with the next averaging
        self.gone = threading.Event()  # the connection is closed
        self.histograms_asked = threading.Event()
        self._dismissed = False
        self._orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._at_beat: Callable[[], None] | None = None
        # The latest generation whose ring ends with the next averaging, so that workers can join.
        self.paused = 0
        # Handlers on the reader thread, by kind. All other kinds are orders.
        self._handlers: dict[str, Callable[[Message], object]] = {
            "stop": lambda _: self.stopping.set(),
            "pause": self._pause,
            "histograms": lambda _: self.histograms_asked.set(),
            "regroup": lambda message: self.ring.break_off(int(message.fields["generation"])),
            "dismiss": self._dismiss,
            # On a thread of its own: another one may be stuck while it sends.
            "stacks": lambda _: threading.Thread(target=self._send_stacks, daemon=True).start(),
            "answered": self._answers.put,
            **dict.fromkeys(("snapshot", "clock", CONNECT_BACK), lambda _: None),
        }
        self._connection: Connection = connect(address, secret=secret, timeout_s=timeout_s)
        # This machine's address as the coordinator sees it.
        self.local_host = str(self._connection.socket.getsockname()[0])
        self._threads = [
            threading.Thread(target=self._read, name=f"{name}-control", daemon=True),
            threading.Thread(target=self._beat, name=f"{name}-heartbeat", daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        _open.add(self)

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, payload: tuple[Any, ...] = ()
    ) -> None:
        try:
            self._connection.send(kind, fields, payload)
        except NetworkError as error:
            self.hang_up()
            raise Dismissed(str(error)) from None

    def next_order(self) -> Message:
        """Wait for the next order, such as "group", "deliver" or "start"."""
        message = self.poll_order(None)
        assert message is not None
        return message

    def poll_order(self, timeout_s: float | None) -> Message | None:
        """Return the next order; None on timeout (`timeout_s` None: no timeout)."""
        try:
            message = self._orders.get(timeout=timeout_s, block=timeout_s != 0)
        except queue.Empty:
            return None
        if message.kind == "dismiss":
            raise Dismissed(message.fields.get("reason", ""))
        return message

    def answer(self, *, epoch: int, round: int, timeout_s: float) -> Message | None:
        """Return the callbacks' answer about this moment (`round` 0: epoch's end), or None."""
        deadline = time.monotonic() + timeout_s
        while True:
            self.check()
            try:
                message = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if message.kind == "dismiss":
                raise Dismissed(message.fields.get("reason", ""))
            if (message.fields["epoch"], message.fields["round"]) == (epoch, round):
                return message

    def check(self) -> None:
        """Raise if this worker's run or task has ended."""
        if self.gone.is_set():
            raise Dismissed("the coordinator or the task has disconnected")

    @property
    def lost(self) -> bool:
        """Whether the connection closed unexpectedly; the coordinator may still be running."""
        return self.gone.is_set() and not self._dismissed

    def on_snapshot_request(self, send: Callable[[], None]) -> None:
        """Call `send` on the reader thread when the driver requests a state within a step."""
        self._handlers["snapshot"] = lambda _: send()

    def send_snapshot(self) -> None:
        """Send the state that a snapshot request asks for; nothing if the driver is gone."""
        with contextlib.suppress(Dismissed):
            self._handlers["snapshot"](Message(kind="snapshot", fields={}))

    def on_clock_answer(self, tell: Callable[[Message, float], None]) -> None:
        """Call `tell`, which must not block, with each answer to "clock" and its arrival."""
        self._handlers["clock"] = lambda message: tell(message, self._connection.received_s)

    def on_connect_back(self, connect_back: Callable[[int], None]) -> None:
        """Call `connect_back` on the reader thread with the ticket of each peer that dials."""
        self._handlers[CONNECT_BACK] = lambda each: connect_back(int(each.fields["ticket"]))

    def on_heartbeat(self, call: Callable[[], None] | None) -> None:
        """Call `call` every second on the heartbeat thread; None: stop."""
        self._at_beat = call

    def close(self) -> None:
        """Disconnect and stop both threads."""
        _open.discard(self)
        self.hang_up()
        for thread in self._threads:
            thread.join(timeout=5.0)

    def _read(self) -> None:
        try:
            while (message := self._connection.receive()) is not None:
                self._handlers.get(message.kind, self._orders.put)(message)
        except (NetworkError, OSError, Dismissed):
            pass
        self.hang_up()

    def _send_stacks(self) -> None:
        with contextlib.suppress(Dismissed):
            self.send("stacks", {"text": stacks()})

    def _pause(self, message: Message) -> None:
        self.paused = int(message.fields["generation"])

    def _dismiss(self, message: Message) -> None:
        self._dismissed = True
        self.ring.break_off()
        self._answers.put(message)
        self._orders.put(message)

    def hang_up(self) -> None:
        """Close the connection, so that all waits raise `Dismissed`; thread-safe."""
        self.gone.set()
        self._connection.close()
        self.ring.break_off()
        gone = Message(kind="dismiss", fields={"reason": "the driver is gone"})
        self._orders.put(gone)
        self._answers.put(gone)

    def _beat(self) -> None:
        while not self.gone.wait(HEARTBEAT_S):
            try:
                activity = self.activity
                self._connection.send(
                    "alive",
                    {
                        "sent_s": time.time(),
                        "steps": activity.steps,
                        "computing": activity.computing,
                    },
                )
                if (call := self._at_beat) is not None:
                    call()
            except (NetworkError, Dismissed):
                self.hang_up()


def stacks() -> str:
    """Return the innermost calls of each thread of this process."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found: list[str] = []
    for ident, frame in sys._current_frames().items():  # pyright: ignore[reportPrivateUsage]
        if ident != threading.get_ident():
            calls = "".join(traceback.format_stack(frame)[-_CALLS_OF_A_STACK:])
            found.append(f"thread {names.get(ident, ident)}:\n{calls}")
    return "".join(found)[:_LONGEST_STACKS]


def say_farewell() -> None:
    """Send the driver the last average of each run of this process, which is about to end."""
    for line in tuple(_open):
        thread = threading.Thread(target=line.send_snapshot, daemon=True)
        thread.start()
        thread.join(_FAREWELL_S)
