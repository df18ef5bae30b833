"""The coordinator alone, led by up to 1,000 simulated workers over loopback.

python -m tests.benchmarks.coordinator 1000
"""

import gc
import multiprocessing
import resource
import sys
import threading
import time

import numpy as np
from tests.benchmarks._harness import row, show, status_mib
from tests.benchmarks._simulated_workers import SECRET, serve

from sparkwright.runs._averaging_coordinator import Coordinator
from sparkwright.runs._decisions import (
    EndRun,
    MessageReceived,
    ProgressSettled,
    ResetHistory,
    WorkerDisconnected,
)
from sparkwright.runs._observations import WorkerRegistered, columns_of
from sparkwright.runs._server import CoordinatorServer
from sparkwright.runs.record import RunRecord

SIZES = (10, 100, 1_000)
_MESSAGES = 20


class Driver:
    """A coordinator's server with the record of a run, and simulated workers that it leads."""

    def __init__(self, workers):
        """Listen, and start the process of the workers; nobody connects yet."""
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        gc.collect()
        self.ended = threading.Event()
        self._before = status_mib()["VmRSS"]
        self.record = RunRecord(workers=workers, epochs=1, name="sparkwright-simulated")
        self.received = 0
        self.server = CoordinatorServer(
            Coordinator(workers=workers, now_s=time.monotonic()),
            self._told,
            secret=SECRET,
            host="127.0.0.1",
            ports=range(1),
            peer_timeout_s=120.0,
            start=lambda: ({"size": 1}, (np.zeros(1, np.float32),)),
            name="sparkwright-simulated",
        )
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, self.server.address[1], workers)
        self._process = context.Process(target=serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, command):
        """What the workers say when they have done `command`."""
        self._pipe.send(command.split())
        return self._pipe.recv()

    def wait_for_events(self, count, timeout_s=120.0):
        """Wait until so many messages of workers have been taken in."""
        deadline = time.monotonic() + timeout_s
        while self.received < count:
            assert time.monotonic() < deadline, (
                f"the driver received {self.received} of {count} messages"
            )
            time.sleep(0.002)

    @property
    def grown_mib(self):
        """Resident memory that the driver has taken since it listens."""
        return status_mib()["VmRSS"] - self._before

    def close(self):
        """End the workers' process, then the server."""
        self._pipe.close()
        self._process.kill()
        self._process.join()
        self.server.close()
        self.record.close()

    def _told(self, notification, message=None):
        """Do as the engine does, and count messages."""
        match notification:
            case WorkerRegistered():
                self.record.worker_joined(
                    notification.worker,
                    host=notification.host,
                    rows=notification.rows,
                    device=notification.device,
                    pid=notification.pid,
                )
            case WorkerDisconnected(worker=worker):
                self.record.worker_lost(worker)
            case MessageReceived(worker=worker) if message is not None:
                self._take(worker, message)
            case ResetHistory():
                self.record.history_forgotten()
            case ProgressSettled(progress=progress, exact=exact):
                self.record.progress_settled(progress, exact=exact)
            case EndRun():
                self.ended.set()
            case _:
                pass

    def _take(self, worker, message):
        if message.kind == "rows":
            self.record.rows_trained(worker, message.fields["blocks"], *columns_of(message))
        else:
            self.record.worker_alive(worker)
        self.received += 1  # last: whoever waits for it looks at the record then


def coordinator(sizes=SIZES):
    """Start-up, rows and memory of averaging, by the number of workers."""
    for size in sizes:
        driver = Driver(size)
        name = f"{size:,} workers"
        try:
            found = driver.tell("connect")
            yield row(f"{name}: all in the first group", found["grouped_s"], "s", runs=found)
            yield row(f"{name}: driver's memory", driver.grown_mib, "MiB")
            began_s = time.perf_counter()
            rows = driver.tell(f"rows {_MESSAGES}")
            driver.wait_for_events(rows["events"])
            rate = rows["events"] / (time.perf_counter() - began_s)
            yield row(f"{name}: messages with rows", rate, "1/s")
            end = driver.tell("finish")
            assert driver.ended.wait(60)
            yield row(f"{name}: end of the run", end["seconds"], "s")
        finally:
            driver.close()


if __name__ == "__main__":
    show(coordinator(tuple(map(int, sys.argv[1:])) or SIZES))
