"""Passes bytes between pairs of sockets, on one thread and in bounded memory."""

import contextlib
import selectors
import threading
from collections import deque
from dataclasses import dataclass, field
from socket import socket, socketpair
from typing import Self

from .handshake import close_socket

# What is read from one socket at once, and the most that waits for the other.
_BUFFER_BYTES = 256 << 10
_JOIN_S = 5.0


@dataclass(eq=False, slots=True)
class _Half:
    """One socket of a pair.

    Attributes:
        sock: the socket, which does not block.
        waiting: what has come from the other half and this socket has not taken yet.
        events: what the selector watches it for.
    """

    sock: socket
    waiting: memoryview = field(default_factory=lambda: memoryview(b""))
    events: int = 0
    _other: "_Half | None" = None

    @classmethod
    def pair(cls, one: socket, other: socket) -> tuple[Self, Self]:
        """The halves of a pair."""
        first, second = cls(one), cls(other)
        first._other, second._other = second, first
        return first, second

    @property
    def other(self) -> "_Half":
        """The half that gets what this one receives."""
        assert self._other is not None
        return self._other

    @property
    def wanted(self) -> int:
        """Nothing is read while the other half is full: TCP then stops the sender."""
        reads, writes = not self.other.waiting, bool(self.waiting)
        return reads * selectors.EVENT_READ | writes * selectors.EVENT_WRITE


class Splicer:
    """Connects pairs of sockets until either of a pair is closed, which closes the other.

    What one peer sent before it closed its socket still reaches the other.
    """

    def __init__(self, *, name: str) -> None:
        """Nothing is passed on yet; the thread, called `name`, starts with the first pair."""
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
        """Pass on what comes from `one` to `other` and back, and close both in the end."""
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
        """Close all sockets and end the thread."""
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
        if not count:  # all that came before has gone on, or this half would not be read
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
        self._begin_new()  # those that came last are closed with the others
        for half in self._halves:
            close_socket(half.sock)
        self._selector.close()
        self._wakes.close()
        self._wake.close()


def _send(sock: socket, content: memoryview) -> int:
    """Send what goes without waiting; how many bytes.

    Raises:
        OSError: if the peer is gone.
    """
    if not content:
        return 0
    try:
        return sock.send(content)
    except BlockingIOError:
        return 0
