import contextlib
import socket
import threading
from contextlib import ExitStack
from typing import NamedTuple

import numpy as np
import pytest
from tests.waiting import names_of_threads, wait_until

from sparkwright.mesh import _splicer
from sparkwright.mesh._splicer import Splicer

NAME = "test-splicer"
SIZE = 3_000_017


class Line(NamedTuple):
    """Two peers, and between them the sockets that the splicer has."""

    one: socket.socket
    other: socket.socket
    inside: tuple[socket.socket, socket.socket]


@pytest.fixture
def splicer():
    found = Splicer(name=NAME)
    yield found
    found.close()
    assert not names_of_threads(NAME)


@pytest.fixture
def line(splicer):
    with ExitStack() as stack:

        def make():
            one, left = socket.socketpair()
            other, right = socket.socketpair()
            for each in (one, other, left, right):
                each.settimeout(20)
                stack.callback(each.close)
            splicer.splice(left, right)
            return Line(one, other, (left, right))

        yield make


def received(sock, count):
    found = bytearray()
    while len(found) < count and (piece := sock.recv(1 << 20)):
        found += piece
    return bytes(found)


def fill(sock):
    """Send zeros until the socket takes no more now; how many."""
    sock.setblocking(False)
    sent = 0
    with contextlib.suppress(BlockingIOError):
        while True:
            sent += sock.send(bytes(1 << 16))
    return sent


def test_bytes_pass_both_ways_at_once_on_several_lines(line):
    random = np.random.default_rng(0)
    lines = [line() for _ in range(3)]
    ends = [(a, b) for each in lines for a, b in ((each.one, each.other), (each.other, each.one))]
    contents = [random.bytes(SIZE) for _ in ends]
    found = {}

    def take(number, sock):
        found[number] = received(sock, SIZE)

    threads = [
        thread
        for number, ((sender, receiver), content) in enumerate(zip(ends, contents, strict=True))
        for thread in (
            threading.Thread(target=sender.sendall, args=(content,)),
            threading.Thread(target=take, args=(number, receiver)),
        )
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert [found[number] == content for number, content in enumerate(contents)] == [True] * 6


def test_slow_receiver_blocks_only_its_sender(splicer, line):
    slow, quick = line(), line()
    sent = fill(slow.one)
    while (more := fill(slow.one)) or not any(half.waiting for half in splicer._halves):
        sent += more
        quick.one.sendall(b"still there?")  # when this has passed, so has all that could
        assert received(quick.other, 12) == b"still there?"
        assert sent < 64 << 20, "the sender was never stopped"
    kept = sum(len(half.waiting) for half in splicer._halves)
    assert 0 < kept <= _splicer._BUFFER_BYTES
    slow.one.settimeout(20)
    assert received(slow.other, sent) == bytes(sent)
    slow.one.sendall(b"on")
    assert received(slow.other, 2) == b"on"


@pytest.mark.parametrize("end", ["one", "other"])
def test_data_sent_before_the_end_arrives_and_both_sockets_close(splicer, line, end):
    pair = line()
    closing, open_ = (pair.one, pair.other) if end == "one" else (pair.other, pair.one)
    sender = threading.Thread(target=lambda: (closing.sendall(b"x" * SIZE), closing.close()))
    sender.start()
    assert len(received(open_, SIZE)) == SIZE
    sender.join(20)
    assert open_.recv(1) == b""
    wait_until(lambda: not splicer._halves)
    assert [each.fileno() for each in pair.inside] == [-1, -1]


def test_lost_receiver_with_bytes_in_transit_ends_the_sender(splicer, line):
    pair, rest = line(), line()
    fill(pair.one)
    pair.other.close()
    pair.one.settimeout(20)
    with pytest.raises(OSError, match=r"Broken pipe|reset"):
        pair.one.sendall(bytes(64 << 20))
    rest.one.sendall(b"on")
    assert received(rest.other, 2) == b"on"


def test_closing_closes_lines_and_those_that_come_later(line):
    splicer, first = Splicer(name=NAME), socket.socketpair()
    second = socket.socketpair()
    splicer.splice(first[0], second[0])
    splicer.close()
    splicer.close()
    assert first[1].recv(1) == second[1].recv(1) == b""
    late = [socket.socketpair() for _ in range(2)]
    splicer.splice(late[0][0], late[1][0])
    assert late[0][1].recv(1) == b""
    for sock in (first[1], second[1], late[0][1], late[1][1]):
        sock.close()
