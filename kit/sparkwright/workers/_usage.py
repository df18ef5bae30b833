"""What a worker's process takes of its machine: processor, memory, GPU."""

import subprocess
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

_EVERY_S = 2.0
_QUERY_S = 5.0  # a query of a GPU that takes longer is the last one
# Share of its time that the GPU computed, from 0 to 1, and bytes of its memory in use.
_GpuUsage = tuple[float, float]


class UsageMeter:
    """Measures this process, at most once in 2 s; the log carries it as readings of a round.

    There is nothing to install for it: without pynvml and nvidia-smi a GPU is not measured. A GPU
    is asked on a thread of its own, and its answer belongs to the next measurement, so that
    training never waits for it.

    Args:
        device: what the process computes on, for display: "CPU", or "GPU 3 (…)".
        clock: seconds; default: the monotonic clock.
    """

    def __init__(self, device: str = "", *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._cores, self._measured = clock, 1, (clock(), time.process_time())
        address = device.split()[1] if device.startswith("GPU ") else ""
        self._query = _gpu_query(address) if address else None
        self._threads = (
            ThreadPoolExecutor(1, thread_name_prefix="sparkwright-gpu") if self._query else None
        )
        self._asked: Future[_GpuUsage] | None = None

    def begin(self, *, cores: int) -> None:
        """A run begins, for which this process has so many cores."""
        self._cores, self._measured = max(1, cores), (self._clock(), time.process_time())

    def readings(self) -> dict[str, float]:
        """Columns of the log; none within 2 s of the last ones, or of the run's beginning.

        Returns:
            processor: processor time since the last ones, as a share of the time that all cores of
            this worker had; memory_bytes: resident now; with a GPU gpu, a share as well, and
            gpu_memory_bytes, of all processes that use it.
        """
        import psutil

        now_s, before = self._clock(), self._measured
        if now_s - before[0] < _EVERY_S:
            return {}
        self._measured = now_s, time.process_time()
        found = {
            "processor": (self._measured[1] - before[1]) / (now_s - before[0]) / self._cores,
            "memory_bytes": float(psutil.Process().memory_info().rss),
        }
        return found | self._gpu_readings()

    def _gpu_readings(self) -> dict[str, float]:
        found: dict[str, float] = {}
        if self._query is None or self._threads is None:
            return found
        if self._asked is not None and self._asked.done():
            if self._asked.exception() is not None:  # such as a driver without that query
                self._query = None
                return found
            found = dict(zip(("gpu", "gpu_memory_bytes"), self._asked.result(), strict=True))
        if self._asked is None or self._asked.done():
            self._asked = self._threads.submit(self._query)
        return found


def _gpu_query(address: str) -> Callable[[], _GpuUsage]:
    """What measures the GPU at an address: by pynvml where it is installed, else by nvidia-smi."""
    try:
        import pynvml  # pyright: ignore[reportMissingImports]
    except ImportError:
        return lambda: _of_nvidia_smi(address)

    def ask() -> _GpuUsage:
        pynvml.nvmlInit()
        is_number = address.isdigit()
        by_index, by_name = pynvml.nvmlDeviceGetHandleByIndex, pynvml.nvmlDeviceGetHandleByUUID
        handle = by_index(int(address)) if is_number else by_name(address)
        busy = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
        return busy / 100, float(pynvml.nvmlDeviceGetMemoryInfo(handle).used)

    return ask


def _of_nvidia_smi(address: str) -> _GpuUsage:
    query = ["nvidia-smi", f"--id={address}", "--query-gpu=utilization.gpu,memory.used"]
    done = subprocess.run(
        [*query, "--format=csv,noheader,nounits"],
        capture_output=True,
        text=True,
        check=True,
        timeout=_QUERY_S,
    )
    busy, mebibytes = done.stdout.split(",")
    return float(busy) / 100, float(mebibytes) * 2**20
