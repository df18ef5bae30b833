"""Ports and rings on this machine, closed after each test."""

import contextlib

import pytest
from tests.support.mesh import SECRET, joined

from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring_port import RingPort


@pytest.fixture
def ports():
    with contextlib.ExitStack() as stack:

        def open_ports(count):
            found = []
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
def meet():
    """Ports meet in a ring, which is left after the test."""
    with contextlib.ExitStack() as stack:

        def build(ports, **options):
            return [stack.enter_context(ring) for ring in joined(ports, **options)]

        yield build


@pytest.fixture
def ring_of(ports, meet):
    return lambda size, **options: meet(ports(size), **options)
