"""Forwarding of bytes between pairs of sockets, on one thread and in bounded memory."""

import contextlib
import selectors
import threading
from collections import deque
from dataclasses import dataclass, field
from socket import socket, socketpair
from typing import Self

from .handshake import close_socket

# Read size, and the maximum buffered for the other socket.
_BUFFER_BYTES = 256 << 10
_JOIN_S = 5.0


@dataclass(eq=False, slots=True)
class _Half:
    """One socket of a pair."""

    sock: socket
    # From the other half, not yet sent.
    waiting: memoryview = field(default_factory=lambda: memoryview(b""))
    events: int = 0  # registered with the selector
    _other: "_Half | None" = None

    @classmethod
    def pair(cls, one: socket, other: socket) -> tuple[Self, Self]:
        """Create the two halves of a pair."""
        first, second = cls(one), cls(other)
        first._other, second._other = second, first
        return first, second

    @property
    def other(self) -> "_Half":
        """The half that bytes from this socket are forwarded to."""
        assert self._other is not None
        return self._other

    @property
    def wanted(self) -> int:
        """Events to wait for; no reads while the other half is full, so TCP stops the sender."""
        reads, writes = not self.other.waiting, bool(self.waiting)
        return reads * selectors.EVENT_READ | writes * selectors.EVENT_WRITE


class Splicer:
    """Forward bytes between pairs of sockets; when one of a pair closes, close the other.

    Bytes that a peer sent before closing are still forwarded.
    """

    def __init__(self, *, name: str) -> None:
        """Start without pairs; the first pair starts the thread, called `name`."""
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self._selector = selectors.DefaultSelector()
        self._new: deque[tuple[socket, socket]] = deque()
        self._halves: set[_Half] = set()
        self._closed = False
        self._wakes, self._wake = socketpair()
        self._wakes.setblocking(False)
        self._selector.register(self._wakes, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._name = name
        self._thread: threading.Thread | None = None

    def splice(self, one: socket, other: socket) -> None:
        """Forward bytes between `one` and `other`; close both when either closes."""
        with self._lock:
            if self._closed:
                close_socket(one)
                close_socket(other)
                return
            self._new.append((one, other))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()
            self._wake.send(b"\0")

    def close(self) -> None:
        """Close all sockets and stop the thread."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._wake.send(b"\0")
        if self._thread is None:
            self._release()
        else:
            self._thread.join(_JOIN_S)

    # -- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closed:
                for key, events in self._selector.select():
                    if key.data is None:
                        self._begin_new()
                    elif key.data in self._halves:  # the pair may have ended just now
                        self._serve(key.data, events)
        finally:
            self._release()

    def _begin_new(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wakes.recv(_BUFFER_BYTES)
        while self._new:
            halves = _Half.pair(*self._new.popleft())
            self._halves.update(halves)
            for half in halves:
                half.sock.setblocking(False)
                self._watch(half)

    def _serve(self, half: _Half, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                half.waiting = half.waiting[_send(half.sock, half.waiting) :]
            if events & selectors.EVENT_READ:
                self._read(half)
            self._watch(half)
            self._watch(half.other)
        except OSError:
            self._end(half)

    def _read(self, half: _Half) -> None:
        try:
            count = half.sock.recv_into(self._buffer)
        except BlockingIOError:
            return
        if not count:  # all earlier bytes are forwarded, as reads wait for an empty buffer
            raise ConnectionResetError
        content = self._buffer[:count]
        left = content[_send(half.other.sock, content) :]
        half.other.waiting = memoryview(bytes(left))

    def _watch(self, half: _Half) -> None:
        wanted = half.wanted
        if wanted == half.events:
            return
        if not half.events:
            self._selector.register(half.sock, wanted, half)
        elif wanted:
            self._selector.modify(half.sock, wanted, half)
        else:
            self._selector.unregister(half.sock)
        half.events = wanted

    def _end(self, half: _Half) -> None:
        for each in (half, half.other):
            if each.events:
                self._selector.unregister(each.sock)
            close_socket(each.sock)
        self._halves -= {half, half.other}

    def _release(self) -> None:
        self._begin_new()  # so that new pairs are closed too
        for half in self._halves:
            close_socket(half.sock)
        self._selector.close()
        self._wakes.close()
        self._wake.close()


def _send(sock: socket, content: memoryview) -> int:
    """Send as much as possible without blocking; return the number of bytes."""
    if not content:
        return 0
    try:
        return sock.send(content)
    except BlockingIOError:
        return 0
