import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import sparkwright as sw

pytest.importorskip("matplotlib").use("Agg")


def counting(labels, predictions, mask):
    counts = mask if mask is not None else np.ones(len(labels), np.int64)
    return {"rows": np.count_nonzero(counts), "largest": [labels.max()], "seen": labels}


def merging(a, b):
    a["rows"] += b["rows"]  # what it is given is its own
    largest = max(a["largest"], b["largest"])
    return {"rows": a["rows"], "largest": largest, "seen": sorted(a["seen"] + b["seen"])}


def prototype():
    return sw.CustomEvaluation(counting, merging, title="seen")


@given(
    labels=st.lists(st.integers(-5, 5), max_size=20),
    cuts=st.tuples(st.integers(0, 20), st.integers(0, 20)),
)
def test_merged_parts_equal_the_whole_also_after_json(labels, cuts):
    def sorting(was, said, mask):
        return {**counting(was, said, mask), "seen": np.sort(was)}

    first, second = sorted(cuts)
    empty = sw.CustomEvaluation(sorting, merging)
    parts = [labels[:first], labels[first:second], labels[second:]]
    a, b, c = (empty.updated(np.array(p, np.int64), np.zeros(len(p))) for p in parts)
    whole = empty.updated(np.array(labels, np.int64), np.zeros(len(labels)))
    assert (a + b) + c == a + (b + c) == empty + c + (b + a) == whole
    read = empty + sw.CustomEvaluation.from_json(b.to_json())
    assert (a + read) + c == whole
    assert whole.examples == len(labels)


def test_merge_that_mutates_its_argument_changes_nothing_else():
    a = prototype().updated([3, 1], [0, 0])
    b = prototype().updated([2], [0])
    before = a.to_dict()
    assert (a + b).result == {"rows": 3, "largest": [3], "seen": [1, 2, 3]}
    a.result["rows"] = 100
    assert a.to_dict() == before


def test_fully_masked_examples_are_not_counted():
    found = prototype().updated([1, 2, 3], [0, 0, 0], mask=[1, 0, 1])
    assert found.examples == 2
    assert found.result["rows"] == 2
    steps = prototype().updated([1, 2], [0, 0], mask=[[0, 0], [0, 1]])
    assert steps.examples == 1
    assert prototype().updated([1, 2], [0, 0], mask=[[0], [0]]) == prototype()
    assert prototype().updated([], []) == prototype()
    assert prototype().updated(np.zeros(0), np.zeros(0), mask=np.zeros((0, 3))) == prototype()


def test_evaluation_of_json_has_no_functions_and_raises():
    read = sw.CustomEvaluation.from_json(prototype().updated([1], [0]).to_json())
    assert read.result == {"rows": 1, "largest": [1], "seen": [1]}
    assert '"rows": 1' in read.summary()
    with pytest.raises(sw.ConfigurationError, match=r"no functions.*Add it to one"):
        read + read
    with pytest.raises(sw.ConfigurationError, match=r"no functions"):
        read.updated([1], [0])


def test_reports_show_the_result_and_plots_its_numbers():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    numbers = sw.CustomEvaluation(lambda *_: {"a": 1, "<b>": 2.5, "c": "text"}, merging, title="t&")
    found = numbers.updated([1], [0])
    assert found.summary().startswith("Custom evaluation 't&' of 1 examples\n\n{")
    assert "&lt;b&gt;" in found._repr_html_()
    assert repr(found) == "CustomEvaluation('t&', 1 examples)"
    assert found.headline() == {"a": 1.0, "<b>": 2.5}
    assert len(found.plot().patches) == 2
    pyplot.close("all")
    with pytest.raises(sw.DataError, match=r"Draw `result` yourself"):
        numbers.plot()
    one = sw.CustomEvaluation(lambda *_: 7, max, title="seven").updated([1], [0])
    assert one.headline() == {"seven": 7.0}


def test_invalid_results_and_masks_raise():
    pair = sw.CustomEvaluation(lambda *_: 1, lambda a, b: {a, b}).updated([1], [1])
    with pytest.raises(sw.DataError, match="`merge` must return"):
        pair + pair
    with pytest.raises(sw.DataError, match=r"and \(2,\)"):
        prototype().updated([1], [1], mask=[1, 1])
