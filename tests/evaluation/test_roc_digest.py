import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.cases import cases

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import ROC, ROCDigest
from sparkwright.evaluation.roc_digest import (
    cut,
    range_boundaries,
    range_counts,
    score_sample,
    summarize,
)


@st.composite
def partitioned(draw):
    """Labels and scores of some parts: tied or not, float32 or float64, close together or not."""
    elements = draw(
        st.sampled_from(
            [
                st.sampled_from([0.0, 0.25, 0.5, 1.0]),
                st.floats(0, 1, width=32),
                st.floats(-(2.0**120), 2.0**120, width=32),
                st.integers(0, 50).map(lambda step: 0.75 + step * 2.0**-24),
                st.just(1.0),
            ]
        )
    )
    parts = []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(0, 25))
        dtype = draw(st.sampled_from([np.float32, np.float64]))
        scores = draw(npst.arrays(dtype, n, elements=elements))
        parts.append((draw(npst.arrays(np.int64, n, elements=st.integers(0, 1))), scores))
    return parts


def cut_parts(parts, rows_per_range):
    """The pieces of each part, and (ranges, 2) rows of all."""
    step = max(rows_per_range // (8 * len(parts)), 1)
    limits = range_boundaries([score_sample(part, step) for part in parts], rows_per_range, step)
    pieces = [cut(part, limits) for part in parts]
    return pieces, np.sum([range_counts(each) for each in pieces], axis=0)


def summaries_of(parts, rows_per_range, points=1000):
    pieces, counts = cut_parts(parts, rows_per_range)
    return [
        summarize(sum((piece[i] for piece in pieces), ROC()), counts, i, points=points)
        for i in range(len(counts))
    ]


def random_roc(rows, decimals=16):
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, rows)
    scores = np.round(generator.random(rows) + 0.3 * labels, decimals)
    return ROC.from_predictions(labels, scores)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(
    parts=partitioned(),
    rows_per_range=st.integers(1, 60),
    points=st.integers(4, 30),
    data=st.data(),
)
def test_digest_of_any_parts_and_ranges_equals_the_exact_roc(parts, rows_per_range, points, data):
    rocs = [ROC.from_predictions(*part) for part in parts]
    whole = sum(rocs, ROC())
    if not whole.examples:
        return
    summaries = summaries_of(rocs, rows_per_range, points)
    digest = ROCDigest.from_ranges(data.draw(st.permutations(summaries)))
    assert (digest.positives, digest.negatives) == (whole.positives, whole.negatives)
    assert digest.auc == whole.auc
    assert digest.headline() == pytest.approx(whole.headline(), rel=1e-12)
    if whole.positives and whole.negatives:
        assert digest.best_threshold("f1") == whole.best_threshold("f1")
        assert digest.best_threshold("youden") == whole.best_threshold("youden")
    assert len(digest.counts) <= points * len(summaries)
    for threshold in digest.threshold_counts().thresholds:
        assert digest.confusion_at(threshold) == whole.confusion_at(threshold)
    assert ROCDigest.from_json(digest.to_json()) == digest


@cases("parts", 1, 50)
@cases(
    "draw",
    lambda rng: 1 / (1 + np.exp(-8 * rng.standard_normal(20_000))),
    lambda rng: 0.5 + rng.random(20_000) * 2.0**-30,
    lambda rng: rng.standard_cauchy(20_000) * 1e300,
    lambda rng: np.repeat([0.25, 0.5, 0.75], [500, 1000, 500]),
    ids=["at both ends", "close together", "far apart", "tied"],
)
def test_ranges_hold_at_most_the_requested_rows_plus_ties(parts, draw):
    rng = np.random.default_rng(0)
    scores = draw(rng)
    scores = np.sort(scores[np.isfinite(scores)])  # each part has other scores
    labels = rng.integers(0, 2, scores.size)
    split = (np.array_split(labels, parts), np.array_split(scores, parts))
    rocs = [ROC.from_predictions(*part) for part in zip(*split, strict=True)]
    rows = cut_parts(rocs, 2000)[1].sum(axis=1)
    tied = np.unique(scores, return_counts=True)[1].max()
    assert rows.max() <= 2000 + tied
    assert len(rows) <= 2 * scores.size / 1000
    assert rows.sum() == scores.size


def test_retained_points_include_the_best_thresholds():
    roc = random_roc(3000)
    digest = ROCDigest.from_ranges(summaries_of([roc], 10_000, points=4))
    assert len(digest.counts) == 4
    for by in ("f1", "youden"):
        assert digest.best_threshold(by) == roc.best_threshold(by)
    for beyond in (-1.0, 2.0):
        assert digest.confusion_at(beyond) == roc.confusion_at(beyond)
    with pytest.raises(ConfigurationError, match=r"one of the 4 .*between"):
        digest.confusion_at(digest.counts.thresholds[1] + 1e-9)


def test_small_curves_keep_all_points():
    whole = random_roc(500, decimals=2)
    digest = ROCDigest.from_ranges(summaries_of([whole], 100))
    assert digest.curve() == whole.curve()
    assert digest.precision_recall_curve() == whole.precision_recall_curve()
    kind = f"exact, {len(digest.counts)} points kept"
    assert str(digest) == str(whole).replace("(exact)", f"({kind})")
    assert repr(digest) == f"ROCDigest(500 examples, {kind})"


def test_missing_range_raises_and_digests_cannot_be_added():
    summaries = summaries_of([random_roc(100)], 20)
    assert len(summaries) > 2
    with pytest.raises(DataError, match="the last point"):
        ROCDigest.from_ranges(summaries[1:])
    digest = ROCDigest.from_ranges(summaries)
    for call in (lambda: digest + digest, lambda: ROC() + digest, lambda: digest.updated([1], [0])):
        with pytest.raises(DataError, match=r"keeps no scores.*union of the data.*thresholds=n"):
            call()
