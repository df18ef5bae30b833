"""A small NTP server of this machine, for tests of clocks."""

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import ntplib


@dataclass
class NtpServer:
    """What is known of a server that runs."""

    address: str
    asked: int = 0


@contextmanager
def ntp_server(*, ahead_s=0.0, silent=0, **fields):
    """Run a server on a thread of its own, on loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        server = NtpServer(f"127.0.0.1:{sock.getsockname()[1]}")

        def now():
            return ntplib.system_to_ntp_time(time.time() + ahead_s)

        def serve():
            while True:
                packet, peer = sock.recvfrom(512)
                came = now()
                if not packet:
                    return
                server.asked += 1
                if server.asked > silent:
                    asked, answer = ntplib.NTPPacket(), ntplib.NTPPacket(version=4, mode=4)
                    asked.from_data(packet)
                    answer.stratum, answer.recv_timestamp = 1, came
                    answer.orig_timestamp, answer.tx_timestamp = asked.tx_timestamp, now()
                    for name, value in fields.items():
                        setattr(answer, name, value)
                    sock.sendto(answer.to_data(), peer)

        thread = threading.Thread(target=serve, name="ntp-server", daemon=True)
        thread.start()
        try:
            yield server
        finally:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ender:
                ender.sendto(b"", sock.getsockname())
            thread.join(5.0)
