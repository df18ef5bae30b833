"""Ports for tests."""

import socket
from contextlib import contextmanager


@contextmanager
def held_port():
    """A port of loopback that nobody listens at, and that the system gives to nobody else.

    Who sets SO_REUSEADDR, as the kit's listeners do, may listen there meanwhile.
    """
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()[1]
