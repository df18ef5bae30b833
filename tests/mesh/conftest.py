"""Ports and rings on this machine, closed after each test."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.support.mesh import SECRET, Ports, RingOf, joined

from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring, RingPort


@pytest.fixture
def ports() -> Iterator[Ports]:
    with contextlib.ExitStack() as stack:

        def open_ports(count: int) -> list[RingPort]:
            found: list[RingPort] = []
            for rank in range(count):
                shared = PeerPort(
                    secret=SECRET,
                    worker=rank,
                    host="127.0.0.1",
                    ports=range(1),
                    name=f"ring-{rank}",
                )
                stack.callback(shared.close)
                found.append(RingPort(shared))
                stack.callback(found[-1].close)
            return found

        yield open_ports


@pytest.fixture
def ring_of(ports: Ports) -> Iterator[RingOf]:
    with contextlib.ExitStack() as stack:

        def build(size: int, **options: Any) -> list[Ring]:
            rings = joined(ports(size), **options)
            for ring in rings:
                stack.enter_context(ring)
            return rings

        yield build
