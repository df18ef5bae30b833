"""CPU, memory and GPU usage of a worker's process."""

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_EVERY_S = 2.0
_QUERY_S = 5.0  # after a slower GPU query, the GPU is no longer measured


class UsageMeter:
    """Measures this process at most every 2 s, for the readings in the log."""

    def __init__(self, device: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._cores, self._measured = clock, 1, (clock(), time.process_time())
        self._gpu = device.split()[1] if device.startswith("GPU ") else ""  # GPU address
        # For nvidia-smi, so that training never waits; the next readings include its result.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="sparkwright-gpu")
        self._asked: Future[dict[str, float]] | None = None

    def begin(self, *, cores: int) -> None:
        """Start measuring a run in which this process has `cores` cores."""
        self._cores, self._measured = max(1, cores), (self._clock(), time.process_time())

    def readings(self) -> dict[str, float]:
        """Return columns of the log; none within 2 s of the last call or the start of the run."""
        import psutil

        now_s, before = self._clock(), self._measured
        if now_s - before[0] < _EVERY_S:
            return {}
        self._measured = now_s, time.process_time()
        found = {
            "processor": (self._measured[1] - before[1]) / (now_s - before[0]) / self._cores,
            "memory_bytes": float(psutil.Process().memory_info().rss),
        }
        if self._asked is not None and self._asked.done():
            if self._asked.exception() is not None:  # for example, no nvidia-smi
                self._gpu = ""
            else:
                found |= self._asked.result()
            self._asked = None
        if self._gpu and self._asked is None:
            self._asked = self._thread.submit(_gpu_usage, self._gpu)
        return found


def _gpu_usage(address: str) -> dict[str, float]:
    query = ["nvidia-smi", f"--id={address}", "--query-gpu=utilization.gpu,memory.used"]
    done = subprocess.run(
        [*query, "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_QUERY_S,
    )
    busy, mebibytes = done.stdout.split(",")
    return {"gpu": float(busy) / 100, "gpu_memory_bytes": float(mebibytes) * 2**20}
