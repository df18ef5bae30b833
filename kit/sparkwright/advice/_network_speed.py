"""Bandwidth and latency between executors, over the connections of a ring of workers."""

import contextlib
import json
import math
import os
import secrets
import socket
import statistics
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from sparkwright.cluster.connect import address_towards, context_of
from sparkwright.cluster.jobs import run_job
from sparkwright.cluster.slots import is_dynamic, wait_for_slots
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.masters import MeshConfig
from sparkwright.mesh.port import PeerPort, address_in
from sparkwright.mesh.ring import Ring
from sparkwright.mesh.ring_port import RingPort
from sparkwright.options import check_count
from sparkwright.spark.launcher import bind_address, worker_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM_UP, _PINGS = 5, 40
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 20, 256 << 20
_LONG_ENOUGH_S, _REPEATS = 0.2, 3
_TIMEOUT_S = 60.0


class NetworkSpeed(NamedTuple):
    """Bandwidth per worker while all workers send, latency to a neighbor, and machines."""

    bandwidth_bytes_per_s: float
    latency_s: float
    machines: int


def measure_network(spark: "SparkSession", *, workers: int, mesh: MeshConfig) -> NetworkSpeed:
    """Measure bandwidth and latency between `workers` tasks, all sending at the same time."""
    check_count("workers", workers, minimum=2)
    if is_dynamic(context_of(spark).getConf()):
        raise ConfigurationError(
            "the network can be measured only while the number of executors is fixed. Received: "
            "spark.dynamicAllocation.enabled=true. Give `bandwidth_bytes_per_s`."
        )
    wait_for_slots(spark, workers)
    numbers: Any = context_of(spark).parallelize(range(workers), workers)
    task = partial(
        _task,
        secret=secrets.token_bytes(32),
        mesh=mesh,
        driver=bind_address(spark, mesh),
        network=worker_address(spark, mesh),
    )
    deadline_s = time.monotonic() + _TIMEOUT_S

    def late() -> BaseException | None:
        if time.monotonic() < deadline_s:
            return None
        return RunTimeoutError(
            f"the driver waited {_TIMEOUT_S:g} s for {workers} tasks that measure the network. "
            "See that other jobs leave them slots, or give `bandwidth_bytes_per_s`."
        )

    action = numbers.barrier().mapPartitions(task).collect
    found = run_job(spark, action, description="measure the network", error=late)
    hosts, bandwidths, latencies = zip(*found, strict=True)
    return NetworkSpeed(
        statistics.median(bandwidths), statistics.median(latencies), len(set(hosts))
    )


def _task(
    _: Iterable[Any],
    *,
    secret: bytes,
    mesh: MeshConfig,
    driver: str,
    network: str,
) -> list[tuple[str, float, float]]:
    """Join the ring of all tasks in a barrier task; return host, bandwidth and latency."""
    from pyspark import BarrierTaskContext

    context: Any = BarrierTaskContext.get()
    port = PeerPort(
        secret=secret,
        worker=context.partitionId(),
        host=address_in(network) if network else address_towards(driver),
        ports=mesh.ports_from(os.environ),
        name="sparkwright-advice",
        encrypt=mesh.encrypt,
    )
    with contextlib.closing(port):
        rings = RingPort(port, authenticate=mesh.authenticate)
        addresses = [json.loads(each) for each in context.allGather(json.dumps(port.address))]
        ring = rings.join(
            generation=0,
            rank=context.partitionId(),
            addresses=[(host, number) for host, number in addresses],
            workers=range(len(addresses)),
            connect_timeout_s=min(_TIMEOUT_S, mesh.connect_timeout_s),
            peer_timeout_s=min(_TIMEOUT_S, mesh.peer_timeout_s),
        )
        with contextlib.closing(rings), ring:
            return [(socket.gethostname(), *_speed(ring))]


def _speed(ring: Ring) -> tuple[float, float]:
    """Return bandwidth and latency, measured by all workers of a ring at the same time."""
    few = partial(ring.exchange, bytes(8), bytearray(8))
    latency_s = statistics.median([_seconds(few) for _ in range(_WARM_UP + _PINGS)][_WARM_UP:])
    size = _SMALLEST_BYTES
    while True:
        block, other = np.zeros(size, np.uint8), np.empty(size, np.uint8)
        took_s = math.inf
        # Use the fastest repeat: memory is mapped, TCP windows have grown, the machine was idle.
        for _ in range(_REPEATS):
            mine_s = _seconds(partial(ring.exchange, block.data, other.data))
            slowest_s = max(float(each) for each in ring.all_gather(repr(mine_s).encode()))
            took_s = min(took_s, slowest_s)
        if took_s >= _LONG_ENOUGH_S or size >= _LARGEST_BYTES:
            return size / took_s, latency_s
        size *= 4


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s
