"""Timelines made up for tests."""

import numpy as np

from sparkwright.timeline import ClockReading, PhaseCode, SpanStore

LOOP = np.array(
    [PhaseCode.DATA, PhaseCode.COMPUTE, PhaseCode.WAIT, PhaseCode.AVERAGE], dtype=np.uint8
)


def append(store, lane, *spans):
    """Spans as (code, start, seconds)."""
    codes, starts_s, seconds = zip(*spans, strict=True)
    store.append(
        lane,
        np.array(codes, np.uint8),
        np.array(starts_s, np.float64),
        np.array(seconds, np.float32),
    )


def append_rounds(store, worker, *, rounds, start_s, seed=0, slow=1.0):
    """Rounds of averaging one after the other; returns when the last one ends."""
    seconds = np.random.default_rng([seed, worker]).gamma(
        4.0, [0.002, 0.01, 0.003, 0.001], (rounds, 4)
    )
    seconds[:, 1] *= slow
    lengths = seconds.ravel().astype(np.float32)
    ends_s = start_s + np.cumsum(lengths, dtype=np.float64)
    store.append(worker, np.tile(LOOP, rounds), ends_s - lengths, lengths)
    return float(ends_s[-1])


def small_timeline(*, rounds=50, name="demo", exact_limit=500_000):
    """Three workers, the last of which is slow."""
    store = SpanStore(workers=3, exact_limit=exact_limit)
    append(store, -1, (PhaseCode.COUNT, 0.0, 0.5), (PhaseCode.GATHER, 0.5, 9.5))
    end_s = 0.0
    for worker in range(3):
        append(store, worker, (PhaseCode.TENSORFLOW, 1.0, 8.0), (PhaseCode.BUILD, 9.0, 1.0))
        slow = 1.5 if worker == 2 else 1.0
        end_s = max(end_s, append_rounds(store, worker, rounds=rounds, start_s=10.0, slow=slow))
    append(store, -1, (PhaseCode.TRAIN, 10.0, end_s - 10.0))
    return store.timeline(
        name=name,
        elapsed_s=end_s + 0.5,
        hosts=["alpha", "beta", "beta"],
        clocks=[
            ClockReading(worker=0, offset_s=-0.002, uncertainty_s=0.0003),
            ClockReading(worker=1, offset_s=4.5, uncertainty_s=float("nan"), source="ntp"),
        ],
    )
