"""What an exchange costs each of 1 to 8 workers: real rings and meshes, vectors without networks.

    python -m tests.benchmarks.exchanges

Processor time is told beside the time that passes: workers on two cores wait for one another.
"""

import multiprocessing
import os
import statistics
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection as Pipe
from typing import Any

import numpy as np
from tests.benchmarks._harness import Row, row, show

from sparkwright.mesh.port import PeerPort
from sparkwright.mesh.ring import Ring, RingPort
from sparkwright.mesh.topology import Seat
from sparkwright.mesh.update_mesh import UpdateMesh
from sparkwright.updates import apply, encode

SIZE = 431_080  # LeNet's parameters
WORKERS = (1, 2, 4, 8)
PAUSE_S = 0.1
_ROUNDS, _THRESHOLD = 30, 2.5  # of a standard normal update, 1.2 % of the numbers
_SECRET = bytes(range(32))
_JOIN_S = 60.0


def exchanges() -> Iterator[Row]:
    """Milliseconds and processor milliseconds of a worker and exchange, by number of workers."""
    context = multiprocessing.get_context("spawn")
    for kind in ("averaging", "sharing"):
        alone = 0.0
        for count in WORKERS:
            pipes: list[Any] = []
            processes: list[Any] = []
            for rank in range(count):
                ours, theirs = context.Pipe()
                processes.append(
                    context.Process(target=_work, args=(rank, kind, theirs), daemon=True)
                )
                processes[-1].start()
                pipes.append(ours)
            addresses = [pipe.recv() for pipe in pipes]
            for pipe in pipes:
                pipe.send(addresses)
            found = [pipe.recv() for pipe in pipes]
            for process in processes:
                process.join(_JOIN_S)
            passed_s, processor_s = (statistics.mean(each) for each in zip(*found, strict=True))
            alone = alone or processor_s
            yield row(
                f"{kind} of LeNet's size, {count} workers: processor time",
                *(1e3 * processor_s, "ms", 1e3 * alone),
                runs={"passed_ms": 1e3 * (passed_s - PAUSE_S)},
            )


def _work(rank: int, kind: str, pipe: "Pipe[Any, Any]") -> None:
    """Meet the others, exchange at intervals, say (seconds, processor seconds) of an exchange."""
    port = PeerPort(
        secret=_SECRET, worker=rank, host="127.0.0.1", ports=range(1), name=f"exchange-{rank}"
    )
    rings = RingPort(port)
    mesh = UpdateMesh(port, me=(rank, 0), name=f"exchange-mesh-{rank}")
    pipe.send(port.address)
    addresses = pipe.recv()
    ring = rings.join(
        generation=1,
        rank=rank,
        addresses=addresses,
        workers=range(len(addresses)),
        connect_timeout_s=_JOIN_S,
        peer_timeout_s=_JOIN_S,
    )
    seats = [
        Seat(worker=worker, attempt=0, host=host, port=number)
        for worker, (host, number) in enumerate(addresses)
    ]
    mesh.reshape(seats, mode="mesh")
    time.sleep(1.0)  # until all are connected
    ring.all_gather(b"")
    began_s, spent_s = time.perf_counter(), time.process_time()
    if kind == "averaging":
        _average(ring)
    else:
        _share(mesh, rank)
    found = time.perf_counter() - began_s, time.process_time() - spent_s
    ring.all_gather(b"")  # nobody leaves before the others are done
    pipe.send(tuple(seconds / _ROUNDS for seconds in found))
    mesh.close()
    ring.abort()
    rings.close()
    port.close()


def _average(ring: Ring) -> None:
    """Parameters, and two numbers of the optimizer's for each."""
    vector = np.zeros(3 * SIZE, np.float32)
    for _ in range(_ROUNDS):
        time.sleep(PAUSE_S)
        ring.all_reduce(vector)


def _share(mesh: UpdateMesh, rank: int) -> None:
    update = np.random.default_rng(rank).standard_normal(SIZE, dtype=np.float32)
    residual, model = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    for _ in range(_ROUNDS):
        time.sleep(PAUSE_S)
        residual[:] = update
        mesh.publish(encode(residual, _THRESHOLD).words)
        for taken in mesh.take():
            apply(np.frombuffer(taken.payload, np.int32), model, [residual])


if __name__ == "__main__":
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(sys.path))
    show(exchanges())
