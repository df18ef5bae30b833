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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkwright.cluster.jobs import run_job
from sparkwright.cluster.slots import is_dynamic, wait_for_slots
from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.masters import MeshConfig
from sparkwright.mesh.port import PeerPort, address_in
from sparkwright.mesh.ring import Ring, RingPort
from sparkwright.options import check_count
from sparkwright.spark.launcher import bind_address, worker_address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WARM_UP, _PINGS = 5, 40
_SMALLEST_BYTES, _LARGEST_BYTES = 1 << 20, 256 << 20
_REPEATS = 3
_LONG_ENOUGH_S = 0.2  # of one measurement of the bandwidth


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkSpeed:
    """What the workers of a run can expect of the network.

    Attributes:
        workers: tasks that measured, all at the same time.
        machines: on how many machines they ran.
        bandwidth_bytes_per_s: that each sends to the next one while all others do so as well.
        latency_s: until a few bytes of a neighbor arrive.
        hosts: names of these machines, that of each task.
    """

    workers: int
    machines: int
    bandwidth_bytes_per_s: float
    latency_s: float
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class _Orders:
    """What a task needs to know."""

    secret: bytes
    driver: str
    listen_host: str
    mesh: MeshConfig


def measure_network(
    spark: "SparkSession",
    *,
    workers: int,
    mesh: MeshConfig | None = None,
    timeout_s: float = 60.0,
) -> NetworkSpeed:
    """Measure bandwidth and latency between the executors, all of them sending at once.

    One Spark job of `workers` tasks, which takes a few seconds. The tasks connect as the workers
    of a run do, authenticated as these are.

    Args:
        spark: the session.
        workers: tasks to run at once, at least 2.
        mesh: ports, network and addresses of the runs to come; default `MeshConfig()`.
        timeout_s: seconds to wait for the tasks; default 60.

    Raises:
        ConfigurationError: with fewer than two workers, or with dynamic allocation, where Spark
            does not run such jobs.
        SlotsError: if there are not so many task slots.
        RunTimeoutError: if the tasks are not over in time.
        NetworkError: if they do not reach one another.
    """
    check_count("workers", workers, minimum=2)
    if is_dynamic(spark.sparkContext.getConf()):
        raise ConfigurationError(
            "the network can be measured only while the number of executors is fixed. Received: "
            "spark.dynamicAllocation.enabled=true. Give the bandwidth instead."
        )
    wait_for_slots(spark, workers)
    mesh = mesh or MeshConfig()
    orders = _Orders(
        secret=secrets.token_bytes(32),
        driver=bind_address(spark, mesh),
        listen_host=worker_address(spark, mesh),
        mesh=mesh,
    )
    numbers: Any = spark.sparkContext.parallelize(range(workers), workers)
    tasks = numbers.barrier().mapPartitions(_task(orders, timeout_s))
    deadline_s = time.monotonic() + timeout_s

    def late() -> BaseException | None:
        if time.monotonic() < deadline_s:
            return None
        return RunTimeoutError(
            f"the driver waited {timeout_s:g} s for {workers} tasks that measure the network. "
            "See that other jobs leave them slots, or raise `timeout_s`."
        )

    found = run_job(spark, tasks.collect, description="measure the network", error=late)
    hosts = tuple(str(each["host"]) for each in found)
    return NetworkSpeed(
        workers=workers,
        machines=len(set(hosts)),
        bandwidth_bytes_per_s=statistics.median(each["bandwidth"] for each in found),
        latency_s=statistics.median(each["latency"] for each in found),
        hosts=hosts,
    )


def _task(orders: _Orders, timeout_s: float) -> Callable[[Iterable[Any]], list[dict[str, Any]]]:
    """Return the function of a barrier task."""

    def task(_: Iterable[Any]) -> list[dict[str, Any]]:
        from pyspark import BarrierTaskContext

        context: Any = BarrierTaskContext.get()
        rank, mesh = context.partitionId(), orders.mesh
        with contextlib.closing(
            PeerPort(
                secret=orders.secret,
                worker=rank,
                host=_host(orders),
                ports=mesh.ports_from(os.environ),
                name="sparkwright-benchmark",
                encrypt=mesh.encrypt,
            )
        ) as port:
            rings = RingPort(port, secret=orders.secret, authenticate=mesh.authenticate)
            addresses = [json.loads(each) for each in context.allGather(json.dumps(port.address))]
            with (
                contextlib.closing(rings),
                rings.join(
                    generation=0,
                    rank=rank,
                    addresses=[(str(host), int(number)) for host, number in addresses],
                    workers=range(len(addresses)),
                    connect_timeout_s=min(timeout_s, mesh.connect_timeout_s),
                    peer_timeout_s=min(timeout_s, mesh.peer_timeout_s),
                ) as ring,
            ):
                return [{"host": socket.gethostname(), **speed(ring)}]

    return task


def _host(orders: _Orders) -> str:
    """Where a task listens: as told, else at the address that leads to the driver."""
    if "/" in orders.listen_host:
        return address_in(orders.listen_host)
    if orders.listen_host:
        return orders.listen_host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.connect((orders.driver, 9))  # sends nothing: only a route is chosen
        return str(sock.getsockname()[0])


def speed(ring: Ring) -> dict[str, float]:
    """Measure as one worker of a ring, all of which call this at the same time."""
    few = partial(ring.exchange, bytes(8), bytearray(8))
    for _ in range(_WARM_UP):
        few()
    latency_s = statistics.median(_seconds(few) for _ in range(_PINGS))
    size = _SMALLEST_BYTES
    while True:
        block, other = np.zeros(size, np.uint8), np.empty(size, np.uint8)
        took_s = math.inf
        # The fastest counts: memory is mapped, windows of TCP have grown, nothing else ran.
        for _ in range(_REPEATS):
            mine_s = _seconds(partial(ring.exchange, block.data, other.data))
            slowest_s = max(float(each) for each in ring.all_gather(repr(mine_s).encode()))
            took_s = min(took_s, slowest_s)
        if took_s >= _LONG_ENOUGH_S or size >= _LARGEST_BYTES:
            return {"latency": latency_s, "bandwidth": size / took_s}
        size = min(_LARGEST_BYTES, size * 4)


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s
