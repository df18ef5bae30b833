import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import WorstExamples

# Few different losses: most of them are tied. NaN and infinity are among them.
LOSS = st.sampled_from([0.0, 0.5, 1.0, 2.0, float("inf"), float("nan")])
PARTITIONS = st.lists(st.lists(LOSS, max_size=7), min_size=1, max_size=5)


def worst_of(losses, *, partition, count, first_row=0):
    rows = np.arange(first_row, first_row + len(losses))
    features = {"x": (100 * partition + rows).astype(float)[:, None]}
    labels = {"y": rows}
    return WorstExamples.of_rows(
        losses, features, labels, count=count, partition=partition, first_row=first_row
    )


def by_sorting(partitions, count):
    """The oracle: all examples in one list, NaN first, then by loss, then by place."""
    every = [
        (not np.isnan(loss), 0.0 if np.isnan(loss) else -loss, partition, row)
        for partition, losses in enumerate(partitions)
        for row, loss in enumerate(losses)
    ]
    return [(partition, row) for *_, partition, row in sorted(every)[:count]]


@given(PARTITIONS, st.integers(1, 9), st.randoms(use_true_random=False))
def test_merging_parts_in_any_order_keeps_the_worst_examples(partitions, count, random):
    parts = [worst_of(losses, partition=p, count=count) for p, losses in enumerate(partitions)]
    random.shuffle(parts)
    while len(parts) > 1:
        one, other = parts.pop(), parts.pop(random.randrange(len(parts)))
        parts.insert(random.randrange(len(parts) + 1), one + other)
    assert [example.place for example in parts[0]] == by_sorting(partitions, count)
    assert parts[0].scored == sum(map(len, partitions))


@given(st.lists(LOSS, min_size=1, max_size=30), st.integers(1, 9), st.data())
def test_merged_blocks_equal_their_partition(losses, count, data):
    cut = data.draw(st.integers(0, len(losses)))
    first = worst_of(losses[:cut], partition=3, count=count)
    second = worst_of(losses[cut:], partition=3, count=count, first_row=cut)
    found, whole = first + second, worst_of(losses, partition=3, count=count)
    assert [example.place for example in found] == [example.place for example in whole]
    for example in found:
        assert example.features["x"].tolist() == [300.0 + example.row]
        assert example.features["x"].base is None  # what is kept does not keep the block
        assert example.labels["y"].tolist() == example.row


def test_predictions_follow_the_order_of_the_examples():
    worst = worst_of([1.0, 3.0, 2.0], partition=0, count=2)
    found = worst.with_predictions({"y": np.array(k)} for k in (10, 20))
    assert [(e.row, int(e.predictions["y"])) for e in found] == [(1, 10), (2, 20)]
    with pytest.raises(ValueError, match="shorter"):
        worst.with_predictions([{"y": np.array(0)}])


def test_mismatched_arguments_raise():
    with pytest.raises(ConfigurationError, match="`count` must be an integer"):
        WorstExamples(0)
    with pytest.raises(DataError, match=r"count=2 and 3"):
        _ = WorstExamples(2) + WorstExamples(3)
    with pytest.raises(DataError, match="the same number of examples"):
        WorstExamples.of_rows([1.0], {"x": np.zeros((2, 1))}, {}, count=1)
