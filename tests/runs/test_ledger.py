import pytest

from sparkwright.runs._ledger import Ledger
from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span


def begun(minibatches=100, *, lends=True):
    """An epoch of so many minibatches for each of two workers, in pieces of five."""
    ledger = Ledger(
        Progress.first(workers=2),
        epochs=1,
        minibatches=lambda rows: [minibatches for _ in rows],
        piece_size=lambda _: 5,
        lends=lends,
    )
    ledger.begin((3200, 3200))
    ledger.open_epoch()
    return ledger


@pytest.mark.parametrize(
    ("wanted", "workers", "size"),
    # At most half of a worker's share of the 200 left; small pieces if many share what is left.
    [(0, 2, 5), (3, 2, 5), (20, 2, 20), (1_000, 2, 50), (1_000, 10, 10), (1_000, 100, 5)],
)
def test_fast_worker_gets_at_most_half_of_its_share_at_a_time(wanted, workers, size):
    found = begun().hand_out(0, present={0, 1}, wanted=wanted, workers=workers)
    assert found.size == size


def test_without_lending_each_worker_trains_its_own_data_in_order():
    ledger = begun(8, lends=False)
    first = ledger.hand_out(0, present={0, 1})
    assert first == Span(0, 0, 0, 5)
    ledger.count(0, first, minibatches=2, examples=10, iterations=2)
    found = [ledger.hand_out(0, present={0, 1}) for _ in range(3)]
    assert found == [Span(0, 0, 2, 5), Span(0, 0, 5, 8), None]
    assert ledger.has_work({1})
    assert begun(8).hand_out(2, present={0, 1}) is not None
