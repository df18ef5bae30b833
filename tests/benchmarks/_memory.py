"""How much memory Spark's Python workers have taken."""

from pathlib import Path


def largest_python_worker_mib() -> float:
    """The largest resident set that any Python worker of this Spark has ever had."""
    import psutil

    largest = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            # Not "pyspark" alone: that is in the class path of the executors' JVMs.
            if "pyspark.daemon" in process.cmdline():
                status = Path(f"/proc/{process.pid}/status").read_text()
                peak = next(line for line in status.splitlines() if line.startswith("VmHWM"))
                largest = max(largest, int(peak.split()[1]) / 1024)
        except (psutil.Error, OSError, StopIteration):
            continue
    return largest
