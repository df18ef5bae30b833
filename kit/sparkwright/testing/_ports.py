"""Ports for servers that must be named before they start."""

import contextlib
import random
import socket

from sparkwright.errors import RunTimeoutError


def free_port() -> int:
    """A port below those that systems give away by themselves, so that a restart finds it free.

    Raises:
        RunTimeoutError: if none of 100 tries is free.
    """
    for port in random.sample(range(20_000, 32_000), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise RunTimeoutError("Found no free port between 20000 and 32000 for a server.")
