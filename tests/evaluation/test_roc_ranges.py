import json
import math
from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import matplotlib
import numpy as np
import pytest
from hypothesis import given, settings

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import (
    ROC,
    RangePlan,
    RangeSummary,
    ROCDigest,
    ScoreHistogram,
    cut_ranges,
    plan_ranges,
    refined_edges,
    score_histogram,
    summarize_range,
)

matplotlib.use("Agg")

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


def counted(parts: list[ROC], rows_per_range: int) -> tuple[ScoreHistogram, int]:
    """The histogram that ranges are planned from, and how often edges were refined."""
    edges, rounds = None, 0
    while True:
        histogram = score_histogram(parts[0], edges)
        for part in parts[1:]:
            histogram += score_histogram(part, edges)
        edges = refined_edges(histogram, rows_per_range=rows_per_range)
        if edges is None:
            return histogram, rounds
        rounds += 1


def digested(
    parts: list[ROC], rows_per_range: int, points: int = 1000
) -> tuple[RangePlan, list[RangeSummary]]:
    plan = plan_ranges(counted(parts, rows_per_range)[0], rows_per_range=rows_per_range)
    pieces = [cut_ranges(part, plan) for part in parts]
    return plan, [
        summarize_range(sum((piece[i] for piece in pieces), ROC()), place, points=points)
        for i, place in enumerate(plan.ranges)
    ]


def whole_of(parts: list[Part]) -> ROC:
    return sum((ROC.from_predictions(*part) for part in parts), ROC())


@settings(max_examples=150)
@given(
    parts=partitioned(),
    rows_per_range=st.integers(1, 60),
    points=st.integers(4, 30),
    data=st.data(),
)
def test_any_parts_and_ranges_give_exactly_the_numbers_of_all_scores_at_once(
    parts: list[Part], rows_per_range: int, points: int, data: st.DataObject
) -> None:
    whole = whole_of(parts)
    rocs = [ROC.from_predictions(*part) for part in parts]
    _, summaries = digested(rocs, rows_per_range, points)
    digest = ROCDigest.from_ranges(data.draw(st.permutations(summaries)))
    assert digest.headline() == whole.headline()
    assert (digest.positives, digest.negatives) == (whole.positives, whole.negatives)
    assert digest.examples == whole.examples
    if whole.positives and whole.negatives:
        assert digest.best_threshold("f1") == whole.best_threshold("f1")
        assert digest.best_threshold("youden") == whole.best_threshold("youden")
    assert len(digest.counts) <= points * len(summaries)
    for threshold in digest.threshold_counts().thresholds:
        assert digest.confusion_at(threshold) == whole.confusion_at(threshold)
    assert ROCDigest.from_json(digest.to_json()) == digest


@settings(max_examples=100)
@given(parts=partitioned(), rows_per_range=st.integers(1, 60))
def test_ranges_hold_no_more_rows_than_asked_unless_these_are_tied(
    parts: list[Part], rows_per_range: int
) -> None:
    rocs = [ROC.from_predictions(*part) for part in parts]
    plan, _ = digested(rocs, rows_per_range)
    assert len(plan.boundaries) == len(plan.ranges) - 1
    assert list(plan.boundaries) == sorted(set(plan.boundaries))
    pieces = [cut_ranges(roc, plan) for roc in rocs]
    for i, place in enumerate(plan.ranges):
        held = sum((piece[i] for piece in pieces), ROC())
        assert (held.positives, held.negatives) == (place.positives, place.negatives)
        scores = set(held.positive_scores.values) | set(held.negative_scores.values)
        assert held.examples <= rows_per_range or len(scores) == 1
        low = plan.boundaries[i - 1] if i else -math.inf
        high = plan.boundaries[i] if i < len(plan.boundaries) else math.inf
        assert all(low <= float(score) < high for score in scores)


def test_the_best_thresholds_are_among_the_few_points_that_are_kept() -> None:
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, 3000)
    roc = ROC.from_predictions(labels, generator.random(3000) + 0.3 * labels)
    digest = ROCDigest.from_ranges(digested([roc], 10_000, points=4)[1])
    assert len(digest.counts) == 4
    assert digest.best_threshold("f1") == roc.best_threshold("f1")
    assert digest.best_threshold("youden") == roc.best_threshold("youden")


def test_full_curve_points_are_kept_where_they_are_few() -> None:
    generator = np.random.default_rng(5)
    labels, scores = generator.integers(0, 2, 500), np.round(generator.random(500), 2)
    whole = ROC.from_predictions(labels, scores)
    _, summaries = digested([whole], 100)
    digest = ROCDigest.from_ranges(summaries)
    assert digest.curve() == whole.curve()
    assert digest.precision_recall_curve() == whole.precision_recall_curve()


@pytest.mark.parametrize(
    ("low", "high"), [(0.5, 0.5 + 2**-30), (-1e300, 1e300), (1 - 2**-50, 1.0), (0.0, 1e-300)]
)
def test_scores_close_together_are_told_apart_in_few_rounds(low: float, high: float) -> None:
    scores = np.linspace(low, high, 1000)
    histogram, rounds = counted([ROC().including(scores, scores[:0])], 10)
    assert rounds <= 8
    plan = plan_ranges(histogram, rows_per_range=10)
    assert max(place.positives for place in plan.ranges) <= max(
        10, int(np.unique(scores, return_counts=True)[1].max())
    )


def test_probabilities_as_they_come_need_no_second_round() -> None:
    generator = np.random.default_rng(2)
    for spread in (1.0, 8.0):
        scores = 1 / (1 + np.exp(-spread * generator.standard_normal(20_000)))
        assert counted([ROC().including(scores, scores)], 4000)[1] == 0


def test_a_range_that_is_not_what_was_counted_is_refused() -> None:
    roc = ROC.from_predictions([0, 1, 1], [0.1, 0.5, 0.9])
    plan = plan_ranges(score_histogram(roc), rows_per_range=100)
    with pytest.raises(DataError, match=r"2 positives and 1 negatives. Received: 4 and 2"):
        summarize_range(roc + roc, plan.ranges[0], points=10)


def test_a_digest_needs_every_range_once() -> None:
    generator = np.random.default_rng(2)
    roc = ROC.from_predictions(generator.integers(0, 2, 100), generator.random(100))
    _, summaries = digested([roc], 20)
    assert len(summaries) > 2
    other = digested([roc + roc], 20)[1]
    for wrong in (summaries[1:], [*summaries, summaries[0]], [*summaries[1:], other[0]], []):
        with pytest.raises(DataError, match="every range of one plan once"):
            ROCDigest.from_ranges(wrong)


def test_a_digest_says_why_it_does_not_add_up() -> None:
    digest = ROCDigest.from_ranges(digested([ROC.from_predictions([0, 1], [0.1, 0.5])], 1)[1])
    for call in (lambda: digest + digest, lambda: digest.updated([1], [0.5])):
        with pytest.raises(DataError, match=r"are gone.*union of the data.*thresholds=n"):
            call()


def test_a_digest_answers_at_thresholds_that_were_kept() -> None:
    scores = np.arange(1000) / 1000
    roc = ROC().including(scores[500:], scores[:500])
    digest = ROCDigest.from_ranges(digested([roc], 10_000, points=10)[1])
    assert digest.confusion_at(2.0) == roc.confusion_at(2.0)
    assert digest.confusion_at(-1.0) == roc.confusion_at(-1.0)
    missing = next(s for s in scores if s not in digest.counts.thresholds)
    with pytest.raises(ConfigurationError, match=r"one of the \d+ that were kept.*between"):
        digest.confusion_at(missing)
    with pytest.raises(ConfigurationError, match="threshold=nan"):
        digest.confusion_at(math.nan)


def test_no_rows_at_all_make_a_digest_of_nothing() -> None:
    plan, summaries = digested([ROC(), ROC()], 5)
    digest = ROCDigest.from_ranges(summaries)
    assert (plan.boundaries, digest.auc, digest.auprc) == ((), 0.5, 0.0)
    assert ROCDigest.from_json(digest.to_json()) == digest
    assert "0 examples" in digest.summary()
    assert digest.confusion_at(0.5).examples == 0


def test_reports_and_plots_are_those_of_a_roc() -> None:
    roc = ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    digest = ROCDigest.from_ranges(digested([roc], 2)[1])
    assert str(digest) == str(roc).replace("(exact)", "(exact, 4 points kept)")
    assert repr(digest) == "ROCDigest(4 examples, exact, 4 points kept)"
    assert "0.7917" in digest._repr_html_()
    np.testing.assert_array_equal(
        digest.plot().lines[0].get_xydata(), roc.plot().lines[0].get_xydata()
    )
    digest.plot_precision_recall()
    matplotlib.pyplot.close("all")  # type: ignore[attr-defined]


def test_wrong_options_are_refused_by_name() -> None:
    roc = ROC.from_predictions([0, 1], [0.1, 0.5])
    histogram = score_histogram(roc)
    plan = plan_ranges(histogram, rows_per_range=5)
    for call, message in (
        (lambda: plan_ranges(histogram, rows_per_range=0), "rows_per_range=0"),
        (lambda: score_histogram(ROC(5)), "thresholds=5"),
        (lambda: cut_ranges(ROC(5), plan), "thresholds=5"),
        (lambda: summarize_range(roc, plan.ranges[0], points=3), "points=3"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            call()
    with pytest.raises(DataError, match="same edges"):
        histogram + score_histogram(roc, np.array([0.5]))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("auc_numerator", -1),
        ("auc_numerator", 9),
        ("auc_numerator", 1.5),
        ("steps", "-1p0"),
        ("steps", "3p0"),
        ("trapezoids", None),
        ("counts", None),
        ("counts", {"positives": 2, "negatives": 2}),
        ("positives", 3),
        ("true_positives", [1, 1, 1, 1]),
        ("true_positives", [1, 1, 2]),
    ],
)
def test_wrong_json_is_refused(key: str, value: Any) -> None:
    roc = ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    values = json.loads(ROCDigest.from_ranges(digested([roc], 2)[1]).to_json())
    (values if key in values else values["counts"])[key] = value
    with pytest.raises(DataError):
        ROCDigest.from_dict(values)
