"""What a trainer is training, in a file that outlives its process."""

import contextlib
import os
import struct
from collections.abc import Generator
from pathlib import Path

from .work import Span

_FIELDS = struct.Struct("<4q")  # of a span; all 0: none
_file: list[int] = []  # the descriptor in a trainer


def open_mark(socket_path: Path) -> None:
    """Let this process mark what it trains, beside its socket."""
    flags = os.O_CREAT | os.O_TRUNC | os.O_WRONLY
    _file[:] = [os.open(socket_path.with_suffix(".at"), flags, 0o600)]


@contextlib.contextmanager
def marked(span: Span) -> Generator[None]:
    """Mark the minibatches that are trained within the block; no-op outside trainers."""
    for descriptor in _file:
        os.pwrite(descriptor, _FIELDS.pack(*span), 0)
    try:
        yield
    finally:
        for descriptor in _file:
            os.pwrite(descriptor, bytes(_FIELDS.size), 0)


def read_mark(socket_path: Path) -> tuple[int, int, int, int] | None:
    """Return what the trainer with this socket was training when it ended; None: nothing."""
    try:
        found = _FIELDS.unpack(socket_path.with_suffix(".at").read_bytes())
    except (OSError, struct.error):
        return None
    return found if found[3] > found[2] else None
