"""How large the pieces are that the ledger hands out."""

import pytest

from sparkwright.runs._ledger import Ledger
from sparkwright.workers.protocol import Progress


def piece(*, wanted: int, workers: int = 2) -> int:
    """Minibatches of the first piece of an epoch of 100 for each of two workers."""
    ledger = Ledger(
        Progress.first(workers=2),
        epochs=1,
        minibatches=lambda rows: [100 for _ in rows],
        piece_size=lambda _: 5,
    )
    ledger.begin((3200, 3200))
    found = ledger.hand_out(0, present={0, 1}, wanted=wanted, workers=workers)
    assert found is not None
    return found.size


@pytest.mark.parametrize(
    ("wanted", "size"),
    [(0, 5), (3, 5), (20, 20), (1_000, 50)],  # at most half of a worker's share of the 200 left
)
def test_who_is_quick_gets_what_it_wants_up_to_half_its_share(wanted: int, size: int) -> None:
    assert piece(wanted=wanted) == size


def test_pieces_become_small_if_many_share_what_is_left() -> None:
    assert piece(wanted=1_000, workers=10) == 10
    assert piece(wanted=1_000, workers=100) == 5
