"""How large the pieces are that the ledger hands out."""

import pytest

from sparkwright.runs._ledger import Ledger
from sparkwright.workers.protocol import Progress


def piece(*, wanted: int, workers: int) -> int:
    """Minibatches of the first piece of an epoch of 100 for each of two workers."""
    ledger = Ledger(
        Progress.first(workers=2),
        epochs=1,
        minibatches=lambda rows: [100 for _ in rows],
        piece_size=lambda _: 5,
    )
    ledger.begin((3200, 3200))
    ledger.open_epoch()
    found = ledger.hand_out(0, present={0, 1}, wanted=wanted, workers=workers)
    assert found is not None
    return found.size


@pytest.mark.parametrize(
    ("wanted", "workers", "size"),
    # At most half of a worker's share of the 200 left; small pieces if many share what is left.
    [(0, 2, 5), (3, 2, 5), (20, 2, 20), (1_000, 2, 50), (1_000, 10, 10), (1_000, 100, 5)],
)
def test_who_is_quick_gets_what_it_wants_up_to_half_its_share(
    wanted: int, workers: int, size: int
) -> None:
    assert piece(wanted=wanted, workers=workers) == size
