"""A worker's line to the coordinator: orders, answers and heartbeats."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Any

from sparkwright.errors import NetworkError
from sparkwright.mesh.connection import Address, Connection, connect
from sparkwright.mesh.framing import Message
from sparkwright.mesh.relay import CONNECT_BACK
from sparkwright.mesh.ring import Ring

HEARTBEAT_S = 1.0
_EVERY_GENERATION = 1 << 62


class Dismissed(Exception):
    """The coordinator has let this worker go, or is gone itself."""


class Activity:
    """What heartbeats say of the training thread: minibatches trained, whether it computes.

    Heartbeats come from another thread, so they alone do not show that training goes on.
    """

    def __init__(self) -> None:
        self.steps = 0
        self.computing = False

    @contextlib.contextmanager
    def compute(self) -> Generator[None]:
        """The training thread computes, rather than waits for another process, during this."""
        self.computing = True
        try:
            yield
        finally:
            self.computing = False

    @contextlib.contextmanager
    def wait(self) -> Generator[None]:
        """The training thread waits for other workers during this, in the midst of computing."""
        before, self.computing = self.computing, False
        try:
            yield
        finally:
            self.computing = before


class CurrentRing:
    """The ring that "regroup" breaks, and the generations that are not waited for any longer."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ring: Ring | None = None
        self._abandon: Callable[[int], None] | None = None
        self._broken = 0  # all generations up to this one

    def use(self, ring: Ring | None, *, generation: int) -> None:
        """Set the ring, which is that of `generation`; None: no ring any more."""
        with self._lock:
            if self._ring is None or ring is None:
                self._ring = ring
            if ring is not None and generation <= self._broken:
                ring.abort()

    def when_broken(self, abandon: Callable[[int], None]) -> None:
        """Call `abandon` with each generation that is broken, at once if one has been."""
        with self._lock:
            self._abandon = abandon
            if self._broken:
                abandon(self._broken)

    def break_off(self, generation: int = _EVERY_GENERATION) -> None:
        """Break the ring, and do not wait for those of generations up to this one."""
        with self._lock:
            self._broken = max(generation, self._broken)
            if self._ring is not None:
                self._ring.abort()
            if self._abandon is not None:
                self._abandon(self._broken)


class ControlLine:
    """Messages to and from the coordinator, on behalf of the training thread.

    A reader thread takes what comes: groups and the like wait for `next_order`, answers about an
    epoch for `answer`; "stop" and "regroup" act at once, by setting `stopping` and by breaking the
    ring that they mean.

    Attributes:
        activity: of the training thread, which heartbeats report.
        ring: the worker's, which "regroup" breaks.
        stopping: set when the run ends with the next averaging.
        histograms_asked: set when the driver wants histograms at the next moment.
        paused: the latest generation whose ring ends with the next averaging; others join.
    """

    def __init__(self, address: Address, *, secret: bytes, timeout_s: float, name: str) -> None:
        """Connect and start reading.

        Raises:
            NetworkError: if the coordinator cannot be reached.
        """
        self.activity = Activity()
        self.ring = CurrentRing()
        self.stopping = threading.Event()
        self.gone = threading.Event()
        self.histograms_asked = threading.Event()
        self._dismissed = False
        self._orders: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._at_beat: Callable[[], None] | None = None
        self.paused = 0
        # What the reader thread does with a message of each kind. All others are orders.
        self._handlers: dict[str, Callable[[Message], object]] = {
            "stop": lambda _: self.stopping.set(),
            "pause": self._pause,
            "histograms": lambda _: self.histograms_asked.set(),
            "regroup": lambda message: self.ring.break_off(int(message.fields["generation"])),
            "dismiss": self._dismiss,
            **dict.fromkeys(("verdict", "kept", "answered"), self._answers.put),
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

    def send(
        self, kind: str, fields: dict[str, Any] | None = None, payload: tuple[Any, ...] = ()
    ) -> None:
        """Send one message.

        Raises:
            Dismissed: if the coordinator is gone.
        """
        try:
            self._connection.send(kind, fields, payload)
        except NetworkError as error:
            self.hang_up()
            raise Dismissed(str(error)) from None

    def next_order(self) -> Message:
        """Wait for what to do next: "group", "deliver", "start" and the like.

        Raises:
            Dismissed: at the end of the run, or when the coordinator is gone.
        """
        message = self.order_within(None)
        assert message is not None
        return message

    def order_within(self, timeout_s: float | None) -> Message | None:
        """What to do next; None if nothing is to be done within `timeout_s` (None: no limit).

        Raises:
            Dismissed: as `next_order`.
        """
        try:
            message = self._orders.get(timeout=timeout_s, block=timeout_s != 0)
        except queue.Empty:
            return None
        if message.kind == "dismiss":
            raise Dismissed(message.fields.get("reason", ""))
        return message

    def answer(self, kind: str, *, epoch: int, round: int = 0, timeout_s: float) -> Message | None:
        """The driver's answer about `epoch`; None if it does not come within `timeout_s`.

        Args:
            kind: "verdict", "kept" or "answered". Answers about something else are late, and
                dropped.
            epoch: from 1.
            round: of the epoch after it; default 0: it is about the epoch's end.
            timeout_s: how long to wait.

        Raises:
            Dismissed: at the end of the run, or when the coordinator is gone.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            self.check()
            try:
                message = self._answers.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return None
            if message.kind == "dismiss":
                raise Dismissed(message.fields.get("reason", ""))
            about = message.fields["epoch"], message.fields.get("round", 0)
            if message.kind == kind and about == (epoch, round):
                return message

    def check(self) -> None:
        """Go on only if somebody still wants this.

        Raises:
            Dismissed: if the coordinator, or the task that asked for this, is gone.
        """
        if self.gone.is_set():
            raise Dismissed("nobody waits for this any more")

    @property
    def lost(self) -> bool:
        """Whether the line broke without a word: the coordinator may still be there."""
        return self.gone.is_set() and not self._dismissed

    def when_asked_for_a_snapshot(self, send: Callable[[], None]) -> None:
        """Call `send`, on the reader's thread, when the driver cannot wait for this step's end."""
        self._handlers["snapshot"] = lambda _: send()

    def when_time_comes(self, tell: Callable[[Message, float], None]) -> None:
        """Call `tell` with each answer to "clock", and the monotonic clock when it came.

        On the reader's thread, which nothing else must hold up.
        """
        self._handlers["clock"] = lambda message: tell(message, self._connection.heard_s)

    def when_called_back(self, connect_back: Callable[[int], None]) -> None:
        """Call `connect_back`, on the reader's thread, with the ticket of each peer that waits."""
        self._handlers[CONNECT_BACK] = lambda each: connect_back(int(each.fields["ticket"]))

    def at_each_beat(self, call: Callable[[], None] | None) -> None:
        """Call `call` every second, on the heartbeat's thread; None: nothing any more."""
        self._at_beat = call

    def close(self) -> None:
        """Hang up and end both threads."""
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

    def _pause(self, message: Message) -> None:
        self.paused = int(message.fields["generation"])

    def _dismiss(self, message: Message) -> None:
        self._dismissed = True
        self.ring.break_off()
        self._answers.put(message)
        self._orders.put(message)

    def hang_up(self) -> None:
        """Close the line at once; every wait ends with `Dismissed`. From any thread."""
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
