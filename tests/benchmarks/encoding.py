"""Encoding and applying an update of 25 million elements, beside one addition of that length."""

import os
from collections.abc import Iterator

import numpy as np
from tests.benchmarks._harness import Row, Side, compared, seconds

from sparkwright.updates import apply, encode, encode_difference

SIZE = 25_000_000
REPEATS = 7
# Standard normal: 0.1 % of the elements are at least 3.29 in magnitude, 62 % at least 0.5.
SHARES = {"0.1 %": 3.2905, "62 %": 0.5}


def encoding() -> Iterator[Row]:
    """Encode and decode-and-subtract on one core, against one in-place `a += b`."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        for share, threshold in SHARES.items():
            yield from _rows(share, threshold, target="<= 6" if share == "0.1 %" else "")
    finally:
        os.sched_setaffinity(0, allowed)


def _rows(share: str, threshold: float, *, target: str) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    update = rng.standard_normal(SIZE, dtype=np.float32)
    residual, ones = update.copy(), np.ones(SIZE, np.float32)
    # 160 variables, as in a residual network of that size.
    cuts = range(0, SIZE, SIZE // 160)[1:160]
    local, model = np.split(-update, cuts), np.split(np.zeros(SIZE, np.float32), cuts)
    shared, receiver = np.zeros(SIZE, np.float32), np.zeros(SIZE, np.float32)
    message = encode(residual, threshold)
    steps: dict[str, Side] = {
        "a += b": lambda: np.add(receiver, ones, out=receiver),
        "encode": lambda: encode(residual, threshold),
        "encode shared - local": lambda: encode_difference(shared, local, threshold),
        "decode and subtract": lambda: apply(message.words, receiver),
        "decode, subtract from both": lambda: apply(message.words, receiver, model),
    }
    found: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(REPEATS):
        for name, step in steps.items():
            residual[:] = update
            shared[:] = 0
            found[name].append(1e3 * seconds(step))
    additions = found.pop("a += b")
    for name, times in found.items():
        yield compared(
            f"{name}, {SIZE / 1e6:g} M elements, {share} selected",
            *("ms", times, additions),
            target=target,
            runs={"ms": times, "addition_ms": additions, "message_bytes": message.size_bytes},
        )
