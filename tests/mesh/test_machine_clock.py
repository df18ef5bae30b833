"""A process' clocks, with a small NTP server of this machine."""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from sparkwright.errors import NetworkError
from sparkwright.masters import NtpClock
from sparkwright.mesh._machine_clock import MachineClock, ask_ntp, shift_from
from sparkwright.mesh._sntp import answer, timestamp
from sparkwright.timeline._clocks import Offset


@dataclass
class NtpServer:
    """Answers with a time that is ahead; leaves the first questions without an answer."""

    port: int = 0
    asked: int = 0

    def clock(self, *, retries: int = 1, timeout_s: float = 5.0) -> NtpClock:
        return NtpClock(server=f"127.0.0.1:{self.port}", retries=retries, timeout_s=timeout_s)


@contextmanager
def ntp_server(*, ahead_s: float = 0.0, silent: int = 0) -> Generator[NtpServer]:
    server = NtpServer()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        server.port = sock.getsockname()[1]

        def serve() -> None:
            while True:
                packet, peer = sock.recvfrom(512)
                came = timestamp(time.time() + ahead_s)
                if not packet:
                    return
                server.asked += 1
                if server.asked > silent:
                    left = timestamp(time.time() + ahead_s)
                    sock.sendto(answer(packet, came=came, answered=left), peer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ender:
            ender.sendto(b"", ("127.0.0.1", server.port))
        thread.join(5.0)


@pytest.mark.parametrize("ahead_s", [0.0, 5.0, -3600.0])
def test_the_servers_time_is_found_to_within_two_milliseconds(ahead_s: float) -> None:
    with ntp_server(ahead_s=ahead_s) as server:
        found = min(
            (ask_ntp(server.clock().address, timeout_s=5.0) for _ in range(8)),
            key=lambda each: each.uncertainty_s,
        )
    assert found.offset_s == pytest.approx(ahead_s, abs=2e-3)
    assert abs(found.offset_s - ahead_s) <= found.uncertainty_s + 1e-4


def test_a_clock_with_ntp_says_how_wrong_this_machine_is() -> None:
    with ntp_server(ahead_s=5.0) as server:
        clock = MachineClock(server.clock())
        assert clock.settled.wait(5.0)
        state = clock.state()
        clock.close()
    assert (state.source, clock.problem) == ("ntp", "")
    assert state.offset_s == pytest.approx(5.0, abs=0.05)
    assert state.uncertainty_s is not None


def test_a_question_without_an_answer_is_asked_again() -> None:
    with ntp_server(silent=2) as server:
        clock = MachineClock(server.clock(retries=3, timeout_s=0.1))
        assert clock.settled.wait(5.0)
        clock.close()
    assert server.asked == 3
    assert clock.state().source == "ntp"


def test_without_an_answer_the_machines_own_clock_serves() -> None:
    with ntp_server(silent=99) as server:
        clock = MachineClock(server.clock(retries=2, timeout_s=0.1))
        assert clock.settled.wait(5.0)
        clock.close()
    assert clock.state().source == "system"
    assert clock.problem
    assert server.asked == 2


def test_a_measured_offset_comes_before_all_else() -> None:
    state = MachineClock().state(Offset(2.5, 0.001))
    assert (state.source, state.offset_s, state.uncertainty_s) == ("driver", 2.5, 0.001)


def test_a_clock_that_tests_have_shifted_is_ahead_in_both_ways() -> None:
    clock = MachineClock(shift_s=5.0)
    assert clock.now_s() - time.monotonic() == pytest.approx(5.0, abs=0.5)
    with ntp_server() as server:
        found = ask_ntp(server.clock().address, timeout_s=5.0, shift_s=5.0)
    assert found.offset_s == pytest.approx(-5.0, abs=0.05)


def test_shifts_are_one_for_all_or_one_for_each_worker() -> None:
    name = "SPARKWRIGHT_CLOCK_SHIFT_S"
    assert shift_from({}, 3) == 0.0
    assert [shift_from({name: "2.5"}, worker) for worker in range(3)] == [2.5] * 3
    assert [shift_from({name: "1,-2"}, worker) for worker in range(3)] == [1.0, -2.0, -2.0]


def test_a_host_that_says_something_else_is_no_ntp_server() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def babble() -> None:
            _, peer = sock.recvfrom(512)
            sock.sendto(b"hello", peer)

        threading.Thread(target=babble, daemon=True).start()
        with pytest.raises(NetworkError, match="at least 48 bytes"):
            ask_ntp(sock.getsockname(), timeout_s=5.0)
