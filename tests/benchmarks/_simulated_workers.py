"""Many workers of one run in one process, without networks or data: what the driver sees of them.

What they are told to do, each with an answer in numbers:

    connect            all connect and register, and wait for the first group
    rows COUNT         all send COUNT messages with rows of 5 minibatches, as fast as they can
    finish             all report the end, and one delivers
"""

import contextlib
import resource
import selectors
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from sparkwright.mesh.connection import connect
from sparkwright.workers.protocol import Progress

SECRET = bytes(range(32))
ROWS = 3_200  # examples of each worker
_BLOCK = 5
_CONNECTING = 32  # at a time
_LONGEST_S = 240.0
_RESULT = np.zeros(1_000, np.float32)


class SimulatedWorkers:
    """Workers 0 to n - 1 of a run, each a connection that one selector listens to."""

    def __init__(self, port, count):
        """Prepare to connect to the coordinator at `port` of this machine."""
        self._port, self._count = port, count
        self._lines = []
        self._generations = [0] * count
        self._selector = selectors.DefaultSelector()
        self._left = 0

    def connect(self):
        """Connect and register all; seconds until all were connected, and in the first group."""
        began_s = time.perf_counter()
        with ThreadPoolExecutor(_CONNECTING) as pool:
            self._lines = list(pool.map(lambda _: self._line(), range(self._count)))
        connected_s = time.perf_counter() - began_s
        for worker, line in enumerate(self._lines):
            self._selector.register(line.socket, selectors.EVENT_READ, worker)
            line.send("register", self._registration(worker))
        self._until(lambda: all(self._generations), "their first group")
        return {"connected_s": connected_s, "grouped_s": time.perf_counter() - began_s}

    def rows(self, count):
        """Messages with rows; how many were sent."""
        payload = (np.ones(_BLOCK, np.float32), np.full(_BLOCK, 32, np.int32))
        block = {"epoch": 1, "count": _BLOCK, "seconds": 0.05, "age_s": 0.0, "readings": {}}
        for number in range(int(count)):
            block |= {"round": number, "metrics": {"accuracy": 0.5}}
            for line in self._lines:
                line.send("rows", {"blocks": [block], "columns": []}, payload)
        return {"events": int(count) * self._count}

    def finish(self):
        """Go on to the end of the run; how many seconds that takes."""
        began_s = time.perf_counter()
        self._left = self._count
        for worker, line in enumerate(self._lines):
            fields = {"generation": self._generations[worker], "ending": "finished"}
            fields |= {"progress": self._end_of_run().to_dict(), "failure": None}
            line.send("report", fields)
        self._until(lambda: self._left <= 0, "the end of the run")
        return {"seconds": time.perf_counter() - began_s}

    def close(self):
        """Hang up."""
        for line in self._lines:
            line.close()

    # -- a worker's part --------------------------------------------------------------------

    def _line(self):
        return connect(("127.0.0.1", self._port), secret=SECRET, timeout_s=60)

    def _registration(self, worker):
        return {
            "worker": worker,
            "attempt": 0,
            "host": f"host-{worker // 8}.example",
            "address": [f"10.0.{worker // 250}.{worker % 250 + 1}", 40_000 + worker],
            "rows": ROWS,
            "validation_rows": 0,
            "device": "cpu",
            "pid": 1_000 + worker,
        }

    def _take(self, worker, kind, fields):
        if kind == "group":
            self._generations[worker] = int(fields["generation"])
        elif kind == "deliver":
            progress = self._end_of_run().to_dict()
            result = {"dtype": "<f4", "size": _RESULT.size, "progress": progress}
            self._lines[worker].send("result", result, (_RESULT,))
        elif kind == "dismiss":
            self._left -= 1

    def _end_of_run(self):
        nothing = (0,) * self._count
        return Progress(epoch=1, averagings=20, steps=nothing, examples=nothing)

    # -- what comes -------------------------------------------------------------------------

    def _until(self, condition, what):
        deadline = time.monotonic() + _LONGEST_S
        while not condition():
            ready = self._selector.select(timeout=1.0)
            for key, _ in ready:
                self._read(key.data)
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self._count} workers waited {_LONGEST_S:g} s for {what}.")

    def _read(self, worker):
        line = self._lines[worker]
        message = line.receive()
        if message is None:
            self._selector.unregister(line.socket)
            return
        self._take(worker, message.kind, message.fields)


def serve(pipe, port, count):
    """Do what comes through the pipe, a method's name with its arguments, and answer."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    workers = SimulatedWorkers(port, count)
    with contextlib.suppress(EOFError):
        while True:
            name, *arguments = pipe.recv()
            pipe.send(getattr(workers, name)(*map(float, arguments)))
    workers.close()
