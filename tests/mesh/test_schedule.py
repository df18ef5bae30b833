import itertools

import hypothesis.strategies as st
from hypothesis import given
from tests.cases import cases

from sparkwright.mesh._ring_blocks import all_gather_steps, reduce_scatter_steps, segment_bounds

SIZES = range(1, 10)


@given(length=st.integers(0, 1000), parts=st.integers(1, 20))
def test_segments_cover_the_vector_in_almost_equal_pieces(length, parts):
    bounds = segment_bounds(length, parts)
    assert len(bounds) == parts
    assert bounds[0][0] == 0
    assert bounds[-1][1] == length
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(bounds))
    sizes = [stop - start for start, stop in bounds]
    assert max(sizes) - min(sizes) <= 1


def after_reduce_scatter(size):
    """holding[worker][segment]: whose contributions the worker has in that segment, in order."""
    holding = [[[worker] for _ in range(size)] for worker in range(size)]
    for step in zip(*(reduce_scatter_steps(rank, size) for rank in range(size)), strict=True):
        sent = [list(holding[rank][step[rank].send]) for rank in range(size)]
        for rank in range(size):
            previous = (rank - 1) % size
            assert step[rank].receive == step[previous].send
            holding[rank][step[rank].receive] += sent[previous]
    return holding


@cases("size", *SIZES)
def test_all_gather_gives_every_worker_the_same_sums(size):
    holding = after_reduce_scatter(size)
    for step in zip(*(all_gather_steps(rank, size) for rank in range(size)), strict=True):
        sent = [holding[rank][step[rank].send] for rank in range(size)]
        for rank in range(size):
            previous = (rank - 1) % size
            assert step[rank].receive == step[previous].send
            holding[rank][step[rank].receive] = sent[previous]
    for rank in range(size):
        assert holding[rank] == holding[0]
        assert all(sorted(segment) == list(range(size)) for segment in holding[rank])


@cases("size", *SIZES)
def test_each_worker_sends_all_but_one_segment_in_each_half(size):
    for rank in range(size):
        for steps in (reduce_scatter_steps(rank, size), all_gather_steps(rank, size)):
            assert len({step.send for step in steps}) == size - 1
            assert len({step.receive for step in steps}) == size - 1
