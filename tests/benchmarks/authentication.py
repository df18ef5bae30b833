"""What authenticating, and encrypting, every block costs a ring of two workers on this machine.

    python -m tests.benchmarks.authentication

Each pair of workers joins three rings: vectors as they are, authenticated, encrypted. All-reduces
take turns, so that whatever else the machine does meets all three alike. Ratios are medians over
the rounds, with the middle 95 % of 2,000 bootstrap medians.
"""

import multiprocessing
import os
import socket
import sys
from functools import partial

import numpy as np
from tests.benchmarks._harness import row, seconds

from sparkwright.mesh.auth import Keys
from sparkwright.mesh.connection import Connection
from sparkwright.mesh.ring import Link, Ring

SIZES = {"LeNet": 431_080, "100 MB": 25_000_000}  # numbers of 4 bytes
ROUNDS = {"LeNet": 400, "100 MB": 40}
WAYS = ("plain", "authenticated", "encrypted")
_KEYS = (bytes(range(32)), bytes(range(32, 64)))
_TIMEOUT_S = 60.0


def authentication():
    """Milliseconds of an all-reduce, and the ratio to blocks that are sent as they are."""
    listeners = [socket.create_server(("127.0.0.1", 0)) for _ in range(2 * len(WAYS))]
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    other = context.Process(target=_work, args=(1, listeners, theirs), daemon=True)
    other.start()
    _work(0, listeners, ours)
    found = ours.recv()
    other.join()
    random = np.random.default_rng(0)
    for name, rounds in found.items():
        times = np.array(rounds)
        plain_ms = 1e3 * float(np.median(times[:, 0]))
        for way, column in zip(WAYS, times.T, strict=True):
            ratios = column / times[:, 0]
            drawn = random.choice(ratios, (2_000, len(ratios)))
            low, high = np.percentile(np.median(drawn, axis=1), [2.5, 97.5])
            yield row(
                f"all-reduce of 2 workers, {name}, {way}",
                *(1e3 * float(np.median(column)), "ms", plain_ms),
                ratio=float(np.median(ratios)),
                runs={"ratio_low": float(low), "ratio_high": float(high)},
                target="<= 1.15" if (name, way) == ("100 MB", "authenticated") else "",
            )


def _work(rank, listeners, pipe):
    """Be worker `rank` of all rings; worker 1 sends the seconds of each round."""
    rings = [_ring(rank, way, listeners[2 * n : 2 * n + 2]) for n, way in enumerate(WAYS)]
    found = {}
    for name, size in SIZES.items():
        vector = np.zeros(size, np.float32)
        found[name] = []
        for turn in range(ROUNDS[name] + 1):
            times = [0.0] * len(rings)
            # Each comes first, second and third equally often.
            for step in range(len(rings)):
                place = (turn + step) % len(rings)
                rings[place].all_gather(b"")
                times[place] = seconds(partial(rings[place].all_reduce, vector))
            if turn:
                found[name].append(times)
    if rank == 1:
        pipe.send(found)
    for ring in rings:
        ring.all_gather(b"")
        ring.abort()


def _ring(rank, way, listeners):
    """Worker r connects to listener 1 - r: two connections, one for each direction."""
    onward = socket.create_connection(listeners[1 - rank].getsockname())
    inward, _ = listeners[rank].accept()
    for sock in (onward, inward):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    encrypt, sealed = way == "encrypted", way != "plain"
    client, server = Keys(*_KEYS, encrypt), Keys(*_KEYS[::-1], encrypt)
    return Ring(
        rank=rank,
        size=2,
        onward=[Link(Connection(onward, client), sealed)],
        inward=[Link(Connection(inward, server), sealed)],
        timeout_s=_TIMEOUT_S,
    )


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    for each in authentication():
        low, high = each["runs"].values()
        print(
            f"{each['what']:<56} {each['value']:>8,.2f} {each['unit']} {each['ratio']:.3f} "
            f"({low:.3f} to {high:.3f})",
            flush=True,
        )
