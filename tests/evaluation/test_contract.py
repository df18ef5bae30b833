import base64
import json
import math
import pickle
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import get_args

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright import evaluation as package
from sparkwright.evaluation import (
    AbstractEvaluation,
    Metric,
    RegressionMetric,
    ROCDigest,
)
from sparkwright.evaluation.roc_digest import summarize

mpl.use("agg")
Batch = tuple[np.ndarray, np.ndarray]
METRICS = (*get_args(Metric), *get_args(RegressionMetric))
CALIBRATION = ("expected_calibration_error", "maximum_calibration_error", "brier_score", "log_loss")


def classes_of(rng, n):
    return rng.integers(0, 3, n), rng.dirichlet(np.ones(3), n).round(2).clip(0, 1)


def binary_of(rng, n):
    return rng.integers(0, 2, (n, 1)), rng.random((n, 1)).round(1)


def outputs_of(rng, n):
    return rng.integers(0, 2, (n, 3)), rng.random((n, 3)).round(1)


def numbers_of(rng, n):
    labels = rng.normal(1e3, 5, (n, 3))
    return labels, labels + rng.normal(1, 2, (n, 3))


@dataclass(frozen=True)
class Kind:
    """A prototype, another one that it cannot be added to, and data that both can count."""

    prototype: AbstractEvaluation
    other: AbstractEvaluation
    draw: Callable[[np.random.Generator, int], Batch]
    exact: bool = True  # parts add up to the last bit


def rows_below_half(labels, predictions, mask):
    counts = np.ones(len(labels), bool) if mask is None else np.asarray(mask) != 0
    return int((predictions[counts] < 0.5).sum())


KINDS = {
    "evaluation": Kind(sw.Evaluation(), sw.Evaluation(top_n=2), classes_of),
    "evaluation with options": Kind(
        sw.Evaluation(("a", "b", "c"), top_n=2, costs=(1, 2, 0.5), keep_errors=4),
        sw.Evaluation(("a", "b", "d"), top_n=2, costs=(1, 2, 0.5), keep_errors=4),
        classes_of,
    ),
    "threshold": Kind(sw.Evaluation(threshold=0.3), sw.Evaluation(threshold=0.4), binary_of),
    "binary": Kind(sw.EvaluationBinary(), sw.EvaluationBinary(thresholds=0.4), outputs_of),
    "binary with ROC": Kind(
        sw.EvaluationBinary(("a", "b", "c"), thresholds=(0.2, 0.5, 0.7), roc_thresholds=0),
        sw.EvaluationBinary(("a", "b", "c"), thresholds=(0.2, 0.5, 0.7), roc_thresholds=5),
        outputs_of,
    ),
    "ROC": Kind(sw.ROC(), sw.ROC(5), binary_of),
    "thresholded ROC": Kind(sw.ROC(7), sw.ROC(5), binary_of),
    "ROCs": Kind(sw.ROCBinary(), sw.ROCBinary(7), outputs_of),
    "thresholded ROCs": Kind(
        sw.ROCBinary(7, ("a", "b", "c")), sw.ROCBinary(7, ("a", "b")), outputs_of
    ),
    "ROCs of classes": Kind(
        sw.ROCMultiClass(0, ("x", "y", "z")), sw.ROCMultiClass(0, ("x", "y", "w")), classes_of
    ),
    "custom": Kind(
        sw.CustomEvaluation(rows_below_half, lambda a, b: a + b),
        sw.CustomEvaluation(rows_below_half, lambda a, b: a + b, title="other"),
        binary_of,
    ),
    "regression": Kind(
        sw.RegressionEvaluation(("a", "b", "c")),
        sw.RegressionEvaluation(("a", "b", "d")),
        numbers_of,
        exact=False,
    ),
    "calibration": Kind(
        sw.EvaluationCalibration(reliability_bins=7, histogram_bins=9),
        sw.EvaluationCalibration(reliability_bins=7, histogram_bins=10),
        classes_of,
        exact=False,
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def counted(kind, n=40, seed=0):
    return kind.prototype.updated(*kind.draw(np.random.default_rng(seed), n))


def assert_same(kind, one, other):
    """Equal; real sums up to rounding."""
    assert one.examples == other.examples
    if kind.exact:
        assert one == other
        assert one.to_json() == other.to_json()
    assert one.headline() == pytest.approx(other.headline(), rel=1e-12, abs=1e-15)


@every_kind
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_merging_parts_in_any_grouping_equals_the_whole(kind, data):
    seed, n = data.draw(st.integers(0, 1 << 32)), data.draw(st.integers(0, 40))
    rng = np.random.default_rng(seed)
    labels, predictions = kind.draw(rng, n)
    mask, records = rng.random(n) < 0.8, list(range(n))
    whole = kind.prototype.updated(labels, predictions, mask=mask, records=records)
    part_of = rng.integers(0, 4, n)
    parts = [
        kind.prototype.updated(
            labels[at], predictions[at], mask=mask[at], records=np.flatnonzero(at).tolist()
        )
        for at in (part_of == part for part in data.draw(st.permutations(range(4))))
    ]
    while len(parts) > 1:
        i = data.draw(st.integers(0, len(parts) - 2))
        both = parts[i] + parts.pop(i + 1)
        if not isinstance(both, sw.CustomEvaluation):  # whose functions do not travel
            both = (
                pickle.loads(pickle.dumps(both))
                if i
                else AbstractEvaluation.from_json(both.to_json())
            )
        parts[i] = both
    assert_same(kind, parts[0], whole)


@every_kind
def test_equality_and_addition_follow_the_data(kind):
    some = counted(kind)
    assert some == counted(kind)
    assert some not in (counted(kind, seed=1), some + some, 5)
    assert kind.prototype.examples == 0
    assert kind.prototype + some == some + kind.prototype == some
    assert kind.prototype + kind.prototype == kind.prototype
    nothing = kind.prototype.updated(*kind.draw(np.random.default_rng(0), 0))
    assert_same(kind, nothing + some, some)


@every_kind
def test_without_rows_metrics_have_the_documented_values(kind):
    labels, predictions = kind.draw(np.random.default_rng(0), 3)
    for nothing in (kind.prototype, kind.prototype.updated(labels, predictions, mask=[0, 0, 0])):
        assert nothing.examples == 0
        for metric, value in nothing.headline().items():
            assert value == (0.5 if metric.startswith("AUC") else 0)
        for metric in (*METRICS, *CALIBRATION):
            if callable(method := getattr(nothing, metric, None)):
                assert method() == 0


@every_kind
def test_names_are_kept_when_unnamed_counts_are_added(kind):
    key = kind.prototype._names_key
    names = getattr(kind.prototype, key, None)
    if names:
        unnamed = replace(counted(kind), **{key: None})
        for both in (kind.prototype + unnamed, unnamed + kind.prototype):
            assert getattr(both, key) == names
            assert both == counted(kind)


@every_kind
def test_masked_rows_are_ignored_whatever_their_values(kind):
    labels, predictions = kind.draw(np.random.default_rng(1), 30)
    mask = np.arange(30) % 3 > 0
    expected = kind.prototype.updated(labels[mask], predictions[mask])
    spoiled = np.where(mask[:, None], predictions, np.nan)
    truth = np.where(mask if labels.ndim == 1 else mask[:, None], labels, -1)
    assert_same(kind, kind.prototype.updated(truth, spoiled, mask=mask), expected)
    if not isinstance(kind.prototype, sw.CustomEvaluation):  # time steps are rows
        steps = (array.reshape(5, 6, *array.shape[1:]) for array in (truth, spoiled))
        by_step = kind.prototype.updated(*steps, mask=mask.reshape(5, 6))
        assert (by_step.examples, by_step.headline()) == (expected.examples, expected.headline())


@every_kind
def test_adding_evaluations_with_different_options_raises(kind):
    assert kind.prototype != kind.other
    with pytest.raises(sw.DataError, match=r"only evaluations .* can be added\. Received: .* and "):
        kind.prototype + kind.other
    with pytest.raises(TypeError):
        counted(kind) + 3


@every_kind
def test_state_cannot_be_changed(kind):
    one = counted(kind)
    state = [getattr(one, field.name) for field in fields(one)]
    with pytest.raises(AttributeError):
        setattr(one, fields(one)[0].name, None)
    for array in (value for value in state if isinstance(value, np.ndarray) and value.size):
        with pytest.raises(ValueError, match="read-only"):
            array.reshape(-1)[0] = 5


def digest():
    roc = sw.ROC.from_predictions([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    return ROCDigest.from_ranges([summarize(roc, np.array([[2, 2]]), 0, points=10)])


COUNTED = [*map(counted, KINDS.values()), digest()]


@cases("one", *COUNTED, ids=[*KINDS, "digest"])
def test_every_kind_is_deserialized_by_its_name(one):
    for read in (
        AbstractEvaluation.from_json(one.to_json()),
        AbstractEvaluation.from_dict(one.to_dict()),
    ):
        assert type(read) is type(one)
        assert read == one
        assert read.headline() == one.headline()


def test_every_kind_of_the_package_can_be_deserialized():
    kinds = {
        found
        for found in vars(package).values()
        if isinstance(found, type) and "name" in vars(found) and hasattr(found, "to_json")
    }
    assert {type(one) for one in COUNTED} == kinds


WRONG = [None, "x", -1, 1.5, math.nan, 10**400, True, [], [3], ["0p0"], {}, {"a": 1}]


def places(values, path=()):
    """Paths to the values, of lists the first entries only."""
    entries = values.items() if isinstance(values, dict) else enumerate(values[:2])
    for key, value in entries:
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from places(value, (*path, key))


def damaged(one, path, value):
    """The values of an evaluation with another one at a place."""
    values = place = json.loads(one.to_json())
    for key in path[:-1]:
        place = place[key]
    assert path[-1] in place if isinstance(place, dict) else path[-1] < len(place)
    place[path[-1]] = value
    return values


@cases("one", *COUNTED, ids=[*KINDS, "digest"])
def test_damaged_values_are_rejected_or_harmless(one):
    refused = 0
    for path in places(one.to_dict()):
        for wrong in WRONG:
            try:
                type(one).from_dict(damaged(one, path, wrong)).summary()
            except sw.DataError:
                refused += 1
    assert refused > 10


def scores_of(*values):
    return base64.b64encode(np.array(values, "<f8").tobytes()).decode()


# Other shapes and lengths, values that are not finite, and too large or negative ones.
REFUSED = {
    "evaluation": {
        "confusion": [[[1, 2], [3]], [[1.5, 2], [3, 4]], [[2**63, 0], [0, 0]]],
        "class_names": [["a"], ["a", "a", "b"]],
    },
    "evaluation with options": {
        "top_n_correct": [-1, 1.0],
        "kept_errors/0/probability": [math.inf],
        "kept_errors/0/predicted": [99],
        "kept_errors/0/step": [[-1]],
    },
    "binary with ROC": {
        "confusion": [[[1, 2], [3, 4]], [[[-1, 2], [3, 4]]]],
        "thresholds": [[0.5]],
        "rows": [-1],
        "roc_thresholds": [None, 5],
        "roc": [sw.EvaluationBinary(roc_thresholds=0).to_dict()["roc"]],
    },
    "ROCs": {"names": [["a"], "abc"], "rocs": [[{"name": "roc"}]]},
    "ROC": {
        "thresholds": [2],
        "positives/count": [1],
        "positives/dtype": ["float32"],
        "positives/sorted": ["!" * 24, scores_of(0.5), scores_of(*[math.inf] * 19)],
    },
    "thresholded ROC": {"positives": [[1, 2], [1, 2, 3, 4, 5, 6, 7, -1]]},
    "digest": {
        "auc_numerator": [9],
        "steps": [3.0, math.nan],
        "counts/positives": [3],
        "counts/true_positives": [[1, 1, 1, 1]],
        "counts/thresholds": [[0.5, 0.25]],
    },
    "calibration": {
        "counts/predicted": [[4], [5, -1, 2], [1 << 70, 0, 0]],
        "counts/squared_errors/high": [[-1.0, 1.0, 1.0], [0.5]],
    },
    "regression": {
        "samples": [[]],
        "moments/counts": [[2, 3], [3.0, 3.0, 3.0], [-3, 3, 3]],
        "moments/largest": [[math.nan, 1, 1], [-1.0, 1, 1]],
        "moments/products/high/0": [[-1.0, 1.0, 1.0]],
        "samples/0/counts": [[1, 1], [1 << 70] * 40],
        "samples/0/labels": [[10**400] * 40],
    },
}


@cases(
    "kind, path, value",
    *(
        (kind, path, value)
        for kind, paths in REFUSED.items()
        for path, values in paths.items()
        for value in values
    ),
)
def test_damaged_numbers_are_rejected(kind, path, value):
    one = dict(zip([*KINDS, "digest"], COUNTED, strict=True))[kind]
    path = [int(key) if key.isdigit() else key for key in path.split("/")]
    with pytest.raises(sw.DataError):
        type(one).from_dict(damaged(one, path, value))


@cases(
    "text",
    *("{}", '{"name": "accuracy"}', '{"name": "abstract"}', '{"name": ["roc"]}', "[1]", "3"),
    *("", "{", "[" * 100_000, '{"name": "evaluation"}'),
)
def test_text_that_is_not_an_evaluation_is_rejected(text):
    with pytest.raises(sw.DataError) as refused:
        AbstractEvaluation.from_json(text)
    if "accuracy" in text:
        assert "'evaluation', 'evaluation_binary'" in str(refused.value)
    with pytest.raises(sw.DataError):
        sw.Evaluation.from_json(text)


@every_kind
def test_reports_and_plots_work_with_and_without_data(kind):
    for one in (kind.prototype, counted(kind)):
        assert f"{one.examples:,} examples" in str(one)
        assert f"{one.examples} examples" in repr(one)
        html = one._repr_html_()
        assert html.startswith('<div class="sparkwright-evaluation">')
        assert "<script" not in html
        if one.headline():
            _, axes = plt.subplots()
            assert one.plot(axes=axes) is axes
            one.plot()
            axes.figure.canvas.draw()
    plt.close("all")


@every_kind
def test_names_are_escaped_and_wide_tables_are_omitted(kind):
    key = kind.prototype._names_key
    if not key or not hasattr(counted(kind), key):
        return
    one = replace(counted(kind), **{key: None})
    named = replace(one, **{key: tuple(f"<b{k}>" for k in range(one._width))})
    assert "&lt;b1&gt;" in named._repr_html_()
    assert "<b1>" not in named._repr_html_()
    assert "<b1>" in named.summary()
    assert len(named._report(1).text()) < len(named.summary())
