"""The packets of SNTP: a question, and what an answer says of the asker's clock.

Forty-eight bytes each way. Times are 64-bit fixed point numbers, seconds since 1900 modulo 2**32.

References:
    D. Mills, "Simple Network Time Protocol (SNTP) Version 4", RFC 4330, sections 4 and 5.
"""

import struct
from typing import NamedTuple

from sparkwright.errors import NetworkError

PACKET_BYTES = 48
# leap and version and mode, stratum, poll, precision | root delay, root dispersion, reference id |
# reference, originate, receive and transmit times
_PACKET = struct.Struct(">BBbbII4sQQQQ")
_CLIENT, _SERVER, _VERSION = 3, 4, 4
_NO_TIME = 3  # a leap indicator: the server's own clock is not set
_SECONDS_1900_TO_1970 = 2_208_988_800
_ERA = 1 << 64


class NtpAnswer(NamedTuple):
    """What a server says.

    Attributes:
        offset_s: what to add to the asker's wall clock.
        uncertainty_s: half the way there and back, and what the server says of its own clock.
    """

    offset_s: float
    uncertainty_s: float


def timestamp(time_s: float) -> int:
    """A time, in seconds since 1970, as it stands in packets."""
    return round((time_s + _SECONDS_1900_TO_1970) * (1 << 32)) % _ERA


def question(sent: int) -> bytes:
    """A packet that asks; `sent` is the `timestamp` of now, which the answer repeats."""
    return _PACKET.pack(_VERSION << 3 | _CLIENT, 0, 0, 0, 0, 0, b"", 0, 0, 0, sent)


def read_answer(packet: bytes, *, sent: int, heard: int) -> NtpAnswer:
    """What the answer to the question of `sent`, heard at `heard`, says.

    Args:
        packet: as it came.
        sent: as in the question.
        heard: the `timestamp` when the answer came, by the asker's clock.

    Raises:
        NetworkError: if it is no answer to that question, or the server has no time to give.
    """
    if len(packet) < PACKET_BYTES:
        raise NetworkError(
            f"an NTP answer has at least {PACKET_BYTES} bytes. Received: {len(packet)}."
        )
    head, stratum, _, _, delay, dispersion, name, _, originate, came, answered = _PACKET.unpack(
        packet[:PACKET_BYTES]
    )
    if head & 7 != _SERVER or originate != sent:
        raise NetworkError("an NTP answer must be a server's, to the question that was asked.")
    if not 0 < stratum < 16 or head >> 6 == _NO_TIME or not answered:
        # With stratum 0 the name says why, such as RATE: asked too often.
        raise NetworkError(
            f"the NTP server has no time to give. Received: stratum={stratum}, "
            f"{name.decode('ascii', 'replace')!r}."
        )
    there_s, back_s = _seconds(came - sent), _seconds(answered - heard)
    delay_s = max(0.0, there_s - back_s)
    return NtpAnswer((there_s + back_s) / 2, delay_s / 2 + delay / 2**17 + dispersion / 2**16)


def answer(asked: bytes, *, came: int, answered: int, stratum: int = 1) -> bytes:
    """A server's answer to a question; what a test's server sends.

    Args:
        asked: the question's packet.
        came: the server's `timestamp` when it came.
        answered: likewise, when the answer leaves.
        stratum: the server's distance from a reference clock; default 1.
    """
    (sent,) = struct.unpack_from(">Q", asked, 40)
    head = _VERSION << 3 | _SERVER
    return _PACKET.pack(head, stratum, 0, -20, 0, 0, b"TEST", came, sent, came, answered)


def _seconds(difference: int) -> float:
    """A difference of two timestamps, the shorter way round the era."""
    half = _ERA >> 1
    return ((difference + half) % _ERA - half) / (1 << 32)
