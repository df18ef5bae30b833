"""The exact ROC of many rows, by ranges of scores."""

import math
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import ROC, ROCDigest
from sparkwright.evaluation.roc_digest import (
    RangeSummary,
    cut,
    range_boundaries,
    range_counts,
    sampling_step,
    score_sample,
    summarize,
)

Part = tuple[np.ndarray, np.ndarray]


@st.composite
def partitioned(draw: st.DrawFn) -> list[Part]:
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
    parts: list[Part] = []
    for _ in range(draw(st.integers(1, 5))):
        n = draw(st.integers(0, 25))
        dtype = draw(st.sampled_from([np.float32, np.float64]))
        scores = draw(npst.arrays(dtype, n, elements=elements))
        parts.append((draw(npst.arrays(np.int64, n, elements=st.integers(0, 1))), scores))
    return parts


def boundaries_of(parts: list[ROC], rows_per_range: int) -> np.ndarray:
    step = sampling_step(rows_per_range, len(parts))
    sample = np.concatenate([score_sample(part, step) for part in parts])
    return range_boundaries(sample, rows_per_range=rows_per_range, step=step)


def summaries_of(parts: list[ROC], rows_per_range: int, points: int = 1000) -> list[RangeSummary]:
    limits = boundaries_of(parts, rows_per_range)
    counts = np.sum([range_counts(part, limits) for part in parts], axis=0)
    pieces = [cut(part, limits) for part in parts]
    return [
        summarize(sum((piece[i] for piece in pieces), ROC()), counts, i, points=points)
        for i in range(counts.shape[1])
    ]


@settings(max_examples=150)
@given(
    parts=partitioned(),
    rows_per_range=st.integers(1, 60),
    points=st.integers(4, 30),
    data=st.data(),
)
def test_any_parts_and_ranges_give_the_numbers_of_all_scores_at_once(
    parts: list[Part], rows_per_range: int, points: int, data: st.DataObject
) -> None:
    rocs = [ROC.from_predictions(*part) for part in parts]
    whole = sum(rocs, ROC())
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


@pytest.mark.parametrize("parts", [1, 3, 50])
@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.random(20_000),
        lambda rng: 1 / (1 + np.exp(-8 * rng.standard_normal(20_000))),
        lambda rng: 0.5 + rng.random(20_000) * 2.0**-30,
        lambda rng: rng.standard_cauchy(20_000) * 1e300,
    ],
    ids=["even", "at both ends", "close together", "far apart"],
)
def test_ranges_hold_no_more_rows_than_asked(parts: int, draw: Any) -> None:
    rng = np.random.default_rng(0)
    scores = draw(rng)
    scores = np.sort(scores[np.isfinite(scores)])  # each part has other scores
    labels = rng.integers(0, 2, scores.size)
    rocs = [
        ROC.from_predictions(*part)
        for part in zip(np.array_split(labels, parts), np.array_split(scores, parts), strict=True)
    ]
    limits = boundaries_of(rocs, 2000)
    rows = np.sum([range_counts(roc, limits) for roc in rocs], axis=(0, 1))
    tied = np.unique(scores, return_counts=True)[1].max()
    assert rows.max() <= 2000 + tied
    assert len(rows) <= 2 * scores.size / 1000
    assert rows.sum() == scores.size


def test_equal_scores_are_in_one_range() -> None:
    roc = ROC().including(np.repeat([0.25, 0.5], 500), np.repeat([0.5, 0.75], 500))
    rows = range_counts(roc, boundaries_of([roc], 100))
    assert sorted(rows.sum(axis=0).tolist()) in ([0, 500, 500, 1000], [500, 500, 1000])


def test_the_best_thresholds_are_among_the_few_points_that_are_kept() -> None:
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, 3000)
    roc = ROC.from_predictions(labels, generator.random(3000) + 0.3 * labels)
    digest = ROCDigest.from_ranges(summaries_of([roc], 10_000, points=4))
    assert len(digest.counts) == 4
    assert digest.best_threshold("f1") == roc.best_threshold("f1")
    assert digest.best_threshold("youden") == roc.best_threshold("youden")


def test_all_points_of_the_curve_are_kept_if_they_are_few() -> None:
    generator = np.random.default_rng(5)
    labels, scores = generator.integers(0, 2, 500), np.round(generator.random(500), 2)
    whole = ROC.from_predictions(labels, scores)
    digest = ROCDigest.from_ranges(summaries_of([whole], 100))
    assert digest.curve() == whole.curve()
    assert digest.precision_recall_curve() == whole.precision_recall_curve()
    assert str(digest) == str(whole).replace(
        "(exact)", f"(exact, {len(digest.counts)} points kept)"
    )
    assert repr(digest) == f"ROCDigest(500 examples, exact, {len(digest.counts)} points kept)"


def test_a_range_must_hold_the_rows_that_were_counted() -> None:
    roc = ROC.from_predictions([0, 1, 1], [0.1, 0.5, 0.9])
    with pytest.raises(DataError, match=r"2 positives and 1 negatives. Received: 4 and 2"):
        summarize(roc + roc, np.array([[2], [1]]), 0, points=10)
    with pytest.raises(ConfigurationError, match="points=3"):
        summarize(roc, np.array([[2], [1]]), 0, points=3)
    with pytest.raises(ConfigurationError, match="rows_per_range=0"):
        sampling_step(0, 1)


def test_a_digest_needs_every_range_once() -> None:
    generator = np.random.default_rng(2)
    roc = ROC.from_predictions(generator.integers(0, 2, 100), generator.random(100))
    summaries = summaries_of([roc], 20)
    assert len(summaries) > 2
    other = summaries_of([roc + roc], 20)[1]
    for wrong in (summaries[1:], [*summaries, summaries[0]], [*summaries[1:], other]):
        with pytest.raises(DataError, match=r"every range|the last point"):
            ROCDigest.from_ranges(wrong)
    nothing = ROCDigest.from_ranges([])
    assert (nothing.auc, nothing.auprc, nothing.examples) == (0.5, 0.0, 0)


def test_a_digest_cannot_be_added() -> None:
    digest = ROCDigest.from_ranges(summaries_of([ROC.from_predictions([0, 1], [0.1, 0.5])], 1))
    for call in (lambda: digest + digest, lambda: digest.updated([1], [0.5])):
        with pytest.raises(DataError, match=r"are gone.*union of the data.*thresholds=n"):
            call()


def test_a_digest_answers_at_thresholds_that_were_kept() -> None:
    scores = np.arange(1000) / 1000
    roc = ROC().including(scores[500:], scores[:500])
    digest = ROCDigest.from_ranges(summaries_of([roc], 10_000, points=10))
    assert digest.confusion_at(2.0) == roc.confusion_at(2.0)
    assert digest.confusion_at(-1.0) == roc.confusion_at(-1.0)
    missing = next(s for s in scores if s not in digest.counts.thresholds)
    with pytest.raises(ConfigurationError, match=r"one of the \d+ .*between"):
        digest.confusion_at(missing)
    with pytest.raises(ConfigurationError, match="threshold=nan"):
        digest.confusion_at(math.nan)
