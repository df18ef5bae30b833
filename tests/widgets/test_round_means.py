import numpy as np
import pytest

from sparkwright_widgets._round_means import RoundMeans


def rows(*entries):
    """Rows of (worker, epoch, round, step, loss, examples)."""
    names = ("worker", "epoch", "round", "step", "loss", "examples")
    columns = zip(*entries, strict=True)
    return {name: np.array(column) for name, column in zip(names, columns, strict=True)}


def test_a_round_is_reported_once_every_worker_has_gone_past_it():
    means = RoundMeans()
    assert means.add(rows((0, 1, 1, 5, 2.0, 32), (1, 1, 1, 5, 4.0, 32))).tolist() == []
    assert means.add(rows((0, 1, 2, 10, 1.0, 32))).tolist() == []
    assert means.add(rows((1, 1, 2, 10, 3.0, 32))).tolist() == [[5.0, 3.0]]
    assert means.finish().tolist() == [[10.0, 2.0]]


def test_examples_weigh_the_mean():
    means = RoundMeans()
    means.add(rows((0, 1, 1, 1, 1.0, 30), (0, 1, 1, 2, 4.0, 10)))
    assert means.finish().tolist() == [[2.0, 1.75]]


def test_a_silent_worker_holds_the_others_up_for_a_few_rounds_only():
    means = RoundMeans(patience_rounds=3)
    means.add(rows((0, 1, 1, 1, 1.0, 1), (1, 1, 1, 1, 1.0, 1)))
    reported = [len(means.add(rows((0, 1, k, k, 1.0, 1)))) for k in range(2, 9)]
    assert reported == [0, 0, 1, 1, 1, 1, 1]


def test_rows_that_come_after_their_round_was_reported_change_nothing():
    means = RoundMeans(patience_rounds=1)
    means.add(rows((0, 1, 1, 1, 1.0, 1), (0, 1, 2, 2, 1.0, 1), (0, 1, 3, 3, 1.0, 1)))
    assert means.add(rows((1, 1, 1, 1, 9.0, 1))).tolist() == []
    assert means.finish().tolist() == [[3.0, 1.0]]


def test_rounds_of_a_later_epoch_come_later():
    means = RoundMeans()
    means.add(rows((0, 1, 7, 7, 1.0, 1)))
    assert means.add(rows((0, 2, 1, 8, 2.0, 1))).tolist() == [[7.0, 1.0]]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_loss_that_is_not_finite_shows_in_its_round_only(bad):
    means = RoundMeans()
    means.add(rows((0, 1, 1, 1, bad, 1), (0, 1, 1, 2, 1.0, 1), (0, 1, 2, 3, 1.0, 1)))
    assert means.finish().tolist() == [[3.0, 1.0]]
