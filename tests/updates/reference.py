"""The two formats once more, an element at a time, to compare with."""

import struct

import hypothesis.strategies as st
import numpy as np

from sparkwright.updates import apply, encode_difference

# On this grid float32 adds and subtracts exactly.
GRID = 2.0**-10


def grid_vectors(*, min_size=1, max_size=120):
    elements = st.one_of(st.just(0), st.integers(-40, 40), st.integers(-4000, 4000))
    return st.lists(elements, min_size=min_size, max_size=max_size).map(
        lambda steps: np.array(steps, np.float32) * np.float32(GRID)
    )


grid_thresholds = st.integers(1, 60).map(lambda steps: steps * GRID)


def bits(threshold):
    return struct.unpack("<i", struct.pack("<f", threshold))[0]


def sparse(values, threshold):
    """`values` holds -1, 0 or 1 for each element."""
    numbers = [sign * (i + 1) for i, sign in enumerate(values) if sign]
    return [len(numbers), len(values), bits(threshold), 0, *numbers]


def bitmap(values, threshold):
    """`values` holds -1, -0.5, 0 or 1 for each element."""
    words = [0] * (len(values) // 16 + 1)
    for i, value in enumerate(values):
        if value in (-1, 1):
            words[i // 16] |= 1 << i % 16
        if value < 0:
            words[i // 16] |= 1 << i % 16 + 16
    signed = [word - (1 << 32) if word >> 31 else word for word in words]
    return [len(values), len(values), bits(threshold), 1, *signed]


def signs(residual, threshold):
    """What the rule selects: 1, -1 or 0 for each element."""
    return [0 if not abs(x) >= threshold else -1 if x < 0 else 1 for x in residual.tolist()]


def encode(residual, threshold):
    """Encode a residual and subtract the message from it."""
    return encode_difference(residual, [np.zeros_like(residual)], threshold)


def decode(words, size):
    """The (size,) values of a message."""
    out = np.zeros(size)
    apply(words, out)
    return -out
