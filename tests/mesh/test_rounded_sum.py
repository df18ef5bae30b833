import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays
from tests.support.mesh import each

from sparkwright.errors import NetworkError
from sparkwright.mesh.rounded_sum import ROUNDINGS, all_reduce_rounded

# Of each rounding: bytes a number, and the largest error relative to a block's largest magnitude.
LIMITS = {"bfloat16": (2, 2**-8), "int8": (1.016, 1 / 253)}
PRECISIONS = list(ROUNDINGS)


def added(rounding, content, size):
    found = np.zeros(size, np.float32)
    rounding.add(content, found)
    return found


@pytest.mark.thorough(but=["bfloat16"])
@pytest.mark.parametrize("precision", PRECISIONS)
@given(
    values=arrays.arrays(
        np.float32,
        st.integers(0, 600),
        elements=st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=True),
    )
)
def test_sent_and_residual_values_add_up(precision, values):
    rounding, kept = ROUNDINGS[precision](), values.copy()
    content = rounding.encode(kept)
    assert content.nbytes == rounding.size(values.size)
    sent = added(rounding, content, values.size)
    np.testing.assert_array_equal(kept, values - sent)
    for start in range(0, values.size, 256):
        block = slice(start, start + 256)
        limit = max(LIMITS[precision][1] * np.abs(values[block]).max(), 2e-36)
        assert np.abs(kept[block]).max() <= limit


@pytest.mark.parametrize("precision", PRECISIONS)
def test_a_vector_takes_as_many_bytes_as_promised(precision):
    size = 10 * 65_536 + 1_000
    values = np.random.default_rng(0).normal(size=size).astype(np.float32)
    rounding, kept = ROUNDINGS[precision](), values.copy()
    content = rounding.encode(kept)
    assert content.nbytes <= LIMITS[precision][0] * size
    np.testing.assert_array_equal(kept, values - added(rounding, content, size))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize("length", [0, 1, 7, 1_500, 100_003])
def test_all_get_the_same_sum_and_nothing_is_lost(ring_of, precision, size, length):
    random = np.random.default_rng(length)
    given = [random.normal(size=length).astype(np.float32) for _ in range(size)]
    kept, rounding = [vector.copy() for vector in given], ROUNDINGS[precision]()
    totals = [np.ones(length, np.float32) for _ in range(size)]

    def work(rank, ring):
        all_reduce_rounded(ring, kept[rank], totals[rank], rounding)

    each(ring_of(size, each_with_each=True), work)
    for total in totals[1:]:
        np.testing.assert_array_equal(total, totals[0])
    np.testing.assert_allclose(totals[0] - 1 + sum(kept), sum(given), atol=1e-5)
    if length > 1:
        assert not np.array_equal(totals[0] - 1, sum(given))


def test_errors_do_not_add_up_over_rounds(ring_of):
    rings, rounding = ring_of(2, each_with_each=True), ROUNDINGS["int8"]()
    random = np.random.default_rng(3)
    change = [random.normal(size=999).astype(np.float32) for _ in rings]
    kept = [np.zeros(999, np.float32) for _ in rings]
    total = [np.zeros(999, np.float32) for _ in rings]

    def work(rank, ring):
        for _ in range(100):
            kept[rank] += change[rank]
            all_reduce_rounded(ring, kept[rank], total[rank], rounding)

    each(rings, work)
    # A hundred times a rounding of its own would be off by up to 100 / 254 of the largest.
    assert np.abs(total[0] - 100 * sum(change)).max() < 0.05


def test_a_lost_worker_ends_it(ring_of):
    def work(rank, ring):
        vector, total = np.ones((2, 9), np.float32)
        if rank == 2:
            return ring.abort()
        with ring, pytest.raises(NetworkError):
            all_reduce_rounded(ring, vector, total, ROUNDINGS["int8"]())

    each(ring_of(3, each_with_each=True, peer_timeout_s=10), work)
