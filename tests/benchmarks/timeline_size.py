"""What a timeline of 1,000 workers over 10 hours takes: memory, files, time to write them.

    python -m tests.benchmarks.timeline_size             1,000 workers, 10 hours
    python -m tests.benchmarks.timeline_size 100 1       100 workers, 1 hour

The spans are made up: rounds of averaging, 500 a worker and hour. It is about how many there are,
not about how they came.
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sparkwright.timeline import PhaseCode, SpanStore, Timeline

_LOOP = (PhaseCode.DATA, PhaseCode.COMPUTE, PhaseCode.WAIT, PhaseCode.AVERAGE)
_SHARES = np.array([0.1, 0.6, 0.2, 0.1])
_ROUNDS_AN_HOUR, _ROUNDS_A_MESSAGE = 500, 50
_SPARK_S = 60.0  # until training begins


def made_up(*, workers: int, hours: float) -> Timeline:
    """Feed a store as a run does, and tell what that took."""
    store, rng = SpanStore(workers=workers), np.random.default_rng(0)
    messages = max(1, round(hours * _ROUNDS_AN_HOUR / _ROUNDS_A_MESSAGE))
    length_s = (3600.0 * hours - _SPARK_S) / messages
    codes = np.tile(np.array(_LOOP, np.uint8), _ROUNDS_A_MESSAGE)
    start = np.array([PhaseCode.SHARD, PhaseCode.TENSORFLOW, PhaseCode.BUILD], np.uint8)
    for worker in range(workers):
        lengths = np.array([8.0, 9.0, 1.0], np.float32)
        store.append(worker, start, np.array([22.0, 30.0, 39.0]), lengths)
    spent_s = 0.0
    for message in range(messages):
        for worker in range(workers):
            seconds = rng.gamma(4.0, 0.25, (_ROUNDS_A_MESSAGE, 4)) * _SHARES
            seconds *= length_s / seconds.sum()
            lengths = seconds.ravel().astype(np.float32)
            ends_s = _SPARK_S + message * length_s + np.cumsum(seconds.ravel())
            began_s = time.process_time()
            store.append(worker, codes, ends_s - lengths, lengths)
            spent_s += time.process_time() - began_s
    each_us = 1e6 * spent_s / (messages * workers)
    print(f"{len(store):,} spans; a message of {len(codes)} spans: {each_us:.0f} µs")
    hosts = [f"host{worker // 8}.example" for worker in range(workers)]
    return store.timeline(name="made up", elapsed_s=3600.0 * hours, hosts=hosts)


def measure(timeline: Timeline) -> None:
    """Print the sizes of what is kept and of the files."""
    largest_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rest = timeline.rest
    if rest is not None:
        print(f"sums: {rest.seconds.nbytes / 1e6:.0f} MB in stretches of {rest.width_s:g} s")
    print(f"the process so far: {largest_mb:.0f} MB")
    with tempfile.TemporaryDirectory() as folder:
        for name, write in (
            ("timeline.html", timeline.to_html),
            ("trace.json.gz", timeline.to_chrome_trace),
        ):
            path, began_s = Path(folder, name), time.perf_counter()
            write(str(path))
            seconds = time.perf_counter() - began_s
            print(f"{name}: {path.stat().st_size / 1e6:.1f} MB in {seconds:.1f} s")


if __name__ == "__main__":
    given = [float(text) for text in sys.argv[1:3]]
    many, long = given if len(given) == 2 else (1000, 10)
    measure(made_up(workers=int(many), hours=long))
