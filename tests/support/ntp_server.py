"""A small NTP server of this machine, for tests of clocks."""

import socket
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

from sparkwright.mesh._sntp import answer, timestamp


@dataclass
class NtpServer:
    """What is known of a server that runs.

    Attributes:
        address: "127.0.0.1:PORT", as `NtpClock` takes it.
        asked: questions so far.
    """

    address: str
    asked: int = 0


@contextmanager
def ntp_server(*, ahead_s: float = 0.0, silent: int = 0) -> Generator[NtpServer]:
    """Run a server on a thread of its own, on loopback.

    Args:
        ahead_s: seconds by which its time is ahead of this machine's; default 0.
        silent: so many questions get no answer first; default 0.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        server = NtpServer(f"127.0.0.1:{sock.getsockname()[1]}")

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

        thread = threading.Thread(target=serve, name="ntp-server", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ender:
                ender.sendto(b"", sock.getsockname())
            thread.join(5.0)
