"""A connection within the process."""

import socket

from sparkwright.mesh._connection import Connection


def socket_pair() -> tuple[Connection, Connection]:
    """Two ends of a local connection."""
    left, right = socket.socketpair()
    return Connection(left), Connection(right)
