"""Packets of SNTP."""

import struct

import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import NetworkError
from sparkwright.mesh._sntp import answer, question, read_answer, timestamp

NOW_S = 1_800_000_000.0
times_s = st.floats(0, 4e9)  # to the year 2096: the packets' own time begins anew in 2036


@given(
    asked_s=times_s, ahead_s=st.floats(-1e8, 1e8), there_s=st.floats(0, 5), back_s=st.floats(0, 5)
)
def test_the_servers_time_lies_within_the_uncertainty(
    asked_s: float, ahead_s: float, there_s: float, back_s: float
) -> None:
    sent, came_s = timestamp(asked_s), asked_s + there_s + ahead_s
    packet = answer(question(sent), came=timestamp(came_s), answered=timestamp(came_s + 0.25))
    heard = timestamp(came_s + 0.25 - ahead_s + back_s)
    found = read_answer(packet, sent=sent, heard=heard)
    # Seconds since 1900 as 64-bit numbers are to within half a microsecond, and there are four.
    assert abs(found.offset_s - ahead_s) <= found.uncertainty_s + 5e-6
    assert found.uncertainty_s == pytest.approx((there_s + back_s) / 2, abs=5e-6)


def test_a_question_is_a_clients_of_version_four() -> None:
    packet = question(timestamp(NOW_S))
    assert len(packet) == 48
    assert packet[0] == 0x23
    assert packet[40:] == struct.pack(">Q", timestamp(NOW_S))


def test_what_the_server_says_of_its_own_clock_adds_to_the_uncertainty() -> None:
    sent = timestamp(NOW_S)
    packet = bytearray(answer(question(sent), came=sent, answered=sent))
    packet[4:12] = struct.pack(">II", 1 << 16, 1 << 15)  # a second's delay, half a second
    assert read_answer(bytes(packet), sent=sent, heard=sent).uncertainty_s == 1.0


def test_an_answer_to_another_question_is_refused() -> None:
    sent = timestamp(NOW_S)
    packet = answer(question(sent + 1), came=sent, answered=sent)
    with pytest.raises(NetworkError, match="to the question that was asked"):
        read_answer(packet, sent=sent, heard=sent)
    with pytest.raises(NetworkError, match="must be a server's"):
        read_answer(question(sent), sent=sent, heard=sent)


@pytest.mark.parametrize(("stratum", "leap"), [(0, 0), (16, 0), (1, 3)])
def test_a_server_without_the_time_is_refused(stratum: int, leap: int) -> None:
    sent = timestamp(NOW_S)
    packet = bytearray(answer(question(sent), came=sent, answered=sent, stratum=stratum))
    packet[0] |= leap << 6
    with pytest.raises(NetworkError, match="has no time to give"):
        read_answer(bytes(packet), sent=sent, heard=sent)


def test_a_short_answer_is_refused() -> None:
    with pytest.raises(NetworkError, match="at least 48 bytes"):
        read_answer(b"hello", sent=0, heard=0)
