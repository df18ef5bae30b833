import socket
import threading
import time

import pytest
from tests.cases import cases
from tests.support.ntp_server import ntp_server
from tests.waiting import wait_until

from sparkwright.errors import NetworkError
from sparkwright.masters import NtpClock
from sparkwright.mesh.machine_clock import MachineClock, query_ntp, shift_from
from sparkwright.timeline.clocks import Offset


def clock_of(server, *, retries=1, timeout_s=5.0):
    return NtpClock(server=server.address, retries=retries, timeout_s=timeout_s)


@cases("ahead_s", 0.0, 5.0, -3600.0)
def test_ntp_clock_measures_the_offset_of_this_machine(ahead_s):
    with ntp_server(ahead_s=ahead_s) as server:
        clock = MachineClock(clock_of(server))
        assert clock.settled.wait(10.0)
        state = clock.state()
        clock.close()
    assert (state.source, clock.problem) == ("ntp", "")
    assert state.uncertainty_s is not None
    assert abs(state.offset_s - ahead_s) <= state.uncertainty_s + 2e-3


@pytest.mark.thorough(but=["99-2"])
@cases("silent, retries", (2, 9), (99, 2))
def test_without_an_answer_the_machines_own_clock_serves(silent, retries):
    with ntp_server(silent=silent) as server:
        clock = MachineClock(
            clock_of(server, retries=retries, timeout_s=0.5 if silent == 2 else 0.1)
        )
        assert clock.settled.wait(10.0)
        clock.close()
        wait_until(lambda: server.asked >= min(retries, silent + 1), 5.0)
    assert clock.state().source == ("ntp" if silent == 2 else "system")
    assert bool(clock.problem) == (silent == 99)


def test_a_measured_offset_comes_before_all_else():
    state = MachineClock().state(Offset(2.5, 0.001))
    assert (state.source, state.offset_s, state.uncertainty_s) == ("driver", 2.5, 0.001)


def test_a_clock_that_tests_have_shifted_is_ahead_for_all_or_each_worker():
    before_s, now_s = time.monotonic(), MachineClock(shift_s=5.0).now_s()
    assert before_s + 5.0 <= now_s <= time.monotonic() + 5.0
    with ntp_server() as server:
        found = query_ntp(clock_of(server).address, timeout_s=5.0, shift_s=5.0)
    assert abs(found.offset_s + 5.0) <= found.uncertainty_s + 2e-3
    name = "SPARKWRIGHT_CLOCK_SHIFT_S"
    assert shift_from({}, 3) == 0.0
    assert [shift_from({name: "2.5"}, worker) for worker in range(3)] == [2.5] * 3
    assert [shift_from({name: "1,-2"}, worker) for worker in range(3)] == [1.0, -2.0, -2.0]


def test_host_with_another_protocol_is_not_an_ntp_server():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))

        def babble():
            _, peer = sock.recvfrom(512)
            sock.sendto(b"hello", peer)

        threading.Thread(target=babble, daemon=True).start()
        with pytest.raises(NetworkError, match="Invalid NTP packet"):
            query_ntp(sock.getsockname(), timeout_s=5.0)


@cases(
    "fields, message",
    ({"stratum": 0}, "must be synchronized"),
    ({"stratum": 16}, "must be synchronized"),
    ({"leap": 3}, "must be synchronized"),
    ({"mode": 3}, "must be from a server"),
    ({"orig_timestamp": 1.0}, "match the query"),
)
def test_answers_without_a_time_are_rejected(fields, message):
    with ntp_server(**fields) as server, pytest.raises(NetworkError, match=message):
        query_ntp(clock_of(server).address, timeout_s=5.0)


def test_the_servers_own_uncertainty_is_added():
    with ntp_server(root_delay=1.0, root_dispersion=0.5) as server:
        found = query_ntp(clock_of(server).address, timeout_s=5.0)
    assert 1.0 <= found.uncertainty_s < 2.0
