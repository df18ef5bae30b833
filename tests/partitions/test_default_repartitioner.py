import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.errors import ConfigurationError
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner, piece_size

repartitioners = st.builds(DefaultRepartitioner, st.integers(1, 10_000)) | st.builds(
    NoRepartitioner
)
all_rows = st.lists(st.integers(0, 100_000), max_size=12)


class Fixed:
    def __init__(self, answer):
        self.answer = answer

    def partitions(self, total, batch_size):
        return self.answer


@cases(
    "total, batch_size, options, partitions",
    *((0, 16, (), 0), (1, 16, (), 1), (16, 16, (), 1), (17, 16, (), 2)),
    *((80_000, 16, (), 5000), (10**9, 16, (), 5000), (1000, 10, (7,), 7), (50, 10, (7,), 5)),
)
def test_default_is_one_partition_per_minibatch_up_to_5000(total, batch_size, options, partitions):
    assert DefaultRepartitioner(*options).partitions(total, batch_size) == partitions


def test_without_repartitioner_all_rows_are_one_piece():
    assert [NoRepartitioner().partitions(total, 10) for total in (0, 1, 10**9)] == [0, 1, 1]


@given(rows=all_rows, batch_size=st.integers(1, 64), repartitioner=repartitioners)
def test_piece_count_is_the_requested_number_or_16_per_worker(rows, batch_size, repartitioner):
    size = piece_size(rows, batch_size, repartitioner)
    minibatches = -(-sum(rows) // batch_size)
    pieces = -(-minibatches // size)
    wanted = repartitioner.partitions(sum(rows), batch_size)
    fewest = 16 * len(rows)
    assert size >= 1
    assert pieces >= min(minibatches, fewest)
    if pieces > wanted:  # only because workers would get too few
        assert size == max(1, minibatches // fewest)


def test_piece_size_grows_with_the_data():
    for nothing in ([], [0], [0, 0], [5000 * 16]):
        assert piece_size(nothing, 16, DefaultRepartitioner()) == 1
    assert piece_size([800_000] * 4, 16, DefaultRepartitioner()) == 40
    assert piece_size([800_000] * 4, 16, DefaultRepartitioner(1000)) == 200
    assert piece_size([800_000] * 4, 16, Fixed(10)) == 200_000 // 64
    assert piece_size([800_000] * 4, 16, Fixed(10), pieces_per_worker=1) == 20_000


@cases("answer", -1, 2.0, None, True, "3")
def test_invalid_partition_count_from_a_repartitioner_raises(answer):
    with pytest.raises(ConfigurationError, match=r"an integer of at least 0.*from Fixed"):
        piece_size([100], 10, Fixed(answer))
