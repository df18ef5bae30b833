import json
import math
import pickle
from fractions import Fraction
from typing import Any, get_args

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from sklearn import metrics as sklearn

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.evaluation import AbstractEvaluation, RegressionEvaluation, RegressionMetric
from sparkwright.evaluation._pair_sample import PairSample, points_per_output

mpl.use("agg")
METRICS: tuple[RegressionMetric, ...] = get_args(RegressionMetric)
few = settings(max_examples=60)

# Tied numbers, large means with small differences, and whatever else.
numbers = (
    st.integers(-3, 3).map(float)
    | st.integers(-100, 100).map(lambda i: 1e9 + i * 1e-6)
    | st.floats(-1e6, 1e6, width=32)
    | st.floats(-1e100, 1e100)
)


@st.composite
def tables(draw: st.DrawFn, most: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, predictions and a mask per output, (n, C) each."""
    shape = draw(st.integers(0, most)), draw(st.integers(1, 3))
    elements = draw(st.sampled_from([numbers, st.integers(0, 2).map(float)]))
    labels = draw(npst.arrays(np.float64, shape, elements=elements))
    kind = draw(st.sampled_from(["any", "perfect", "constant", "shifted"]))
    predictions = {
        "any": lambda: draw(npst.arrays(np.float64, shape, elements=elements)),
        "perfect": lambda: labels.copy(),
        "constant": lambda: np.full(shape, draw(elements)),
        "shifted": lambda: labels + 1,
    }[kind]()
    return labels, predictions, draw(npst.arrays(np.bool_, shape, elements=st.booleans()))


def regression(labels: Any, predictions: Any, **options: Any) -> RegressionEvaluation:
    return RegressionEvaluation.from_predictions(labels, predictions, **options)


def exact_metrics(labels: np.ndarray, predictions: np.ndarray) -> dict[str, Any]:
    """The definitions, with fractions."""
    n = len(labels)
    if n == 0:
        return dict.fromkeys(METRICS, 0)
    small = lambda x: 0.0 if abs(x) < 1e-130 else float(x)  # noqa: E731
    y, p = ([Fraction(small(x)) for x in each] for each in (labels, predictions))
    e = [b - a for a, b in zip(y, p, strict=True)]

    def variation(values: list[Fraction]) -> Fraction:
        mean = sum(values, Fraction(0)) / n
        return sum(((v - mean) ** 2 for v in values), Fraction(0))

    squares = sum((each**2 for each in e), Fraction(0))
    y_mean, p_mean = sum(y, Fraction(0)) / n, sum(p, Fraction(0)) / n
    shared = sum(((a - y_mean) * (b - p_mean) for a, b in zip(y, p, strict=True)), Fraction(0))
    product = variation(y) * variation(p)
    relative = squares / variation(y) if variation(y) else Fraction(int(squares > 0))
    unexplained = variation(e) / variation(y) if variation(y) else Fraction(int(variation(e) > 0))
    return {
        "mean_squared_error": squares / n,
        "mean_absolute_error": sum(map(abs, e), Fraction(0)) / n,
        "max_error": max(map(abs, e)),
        "mean_error": sum(e, Fraction(0)) / n,
        "relative_squared_error": relative,
        "r2": 1 - relative,
        "explained_variance": 1 - unexplained,
        "correlation_squared": shared**2 / product if product else Fraction(0),
        "correlation_sign": (shared > 0) - (shared < 0),
    }


def as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# Metrics


@few
@given(table=tables())
def test_metrics_are_the_exact_ones_rounded_once(table: tuple[np.ndarray, ...]) -> None:
    labels, predictions, mask = table
    if labels.shape[1] == 1:
        mask = mask[:, 0]
    evaluation = regression(labels, predictions, mask=mask)
    counts = mask.reshape(labels.shape)
    assert evaluation.examples == counts.any(axis=1).sum()
    for k in range(labels.shape[1]):
        exact = exact_metrics(labels[counts[:, k], k], predictions[counts[:, k], k])
        for metric in METRICS:
            value = getattr(evaluation, metric)(of=k)
            assert value == evaluation.per_output(metric)[k]
            if metric == "root_mean_squared_error":
                mean = as_float(exact["mean_squared_error"])
                if mean > 1e-300:
                    assert value == pytest.approx(math.sqrt(mean), rel=1e-15)
                assert (value == 0) == (exact["mean_squared_error"] == 0)
            elif metric == "pearson_correlation" and "correlation_squared" in exact:
                square = exact["correlation_sign"] * float(exact["correlation_squared"])
                assert value * abs(value) == pytest.approx(square, rel=1e-14, abs=1e-300)
                assert -1 <= value <= 1
            else:
                assert value == as_float(exact[metric])


@few
@given(seed=st.integers(0, 1 << 32), rows=st.integers(2, 50), outputs=st.integers(1, 4))
def test_metrics_equal_scikit_learns(seed: int, rows: int, outputs: int) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.normal(size=(rows, outputs)) * rng.integers(1, 100, outputs)
    predictions = (labels + rng.normal(size=labels.shape)).astype(np.float32)
    counted = rng.random(rows) < 0.8
    counted[:2] = True
    evaluation = regression(labels, predictions, mask=counted)
    labels, predictions = labels[counted], predictions[counted].astype(np.float64)
    for ours, theirs in (
        ("mean_squared_error", sklearn.mean_squared_error),
        ("root_mean_squared_error", sklearn.root_mean_squared_error),
        ("mean_absolute_error", sklearn.mean_absolute_error),
        ("r2", sklearn.r2_score),
        ("explained_variance", sklearn.explained_variance_score),
    ):
        close = {"rtol": 1e-12, "atol": 1e-12}
        np.testing.assert_allclose(
            evaluation.per_output(ours),  # pyright: ignore[reportArgumentType]
            theirs(labels, predictions, multioutput="raw_values"),
            **close,
        )
        np.testing.assert_allclose(
            getattr(evaluation, ours)(), theirs(labels, predictions), **close
        )
    for k in range(outputs):
        y, p = labels[:, k], predictions[:, k]
        assert evaluation.max_error(of=k) == pytest.approx(sklearn.max_error(y, p), rel=1e-12)
        expected = np.corrcoef(y, p)[0, 1]
        assert evaluation.pearson_correlation(of=k) == pytest.approx(expected, abs=1e-12)
    assert evaluation.max_error() == max(evaluation.per_output("max_error"))
    assert evaluation.relative_squared_error() == pytest.approx(1 - evaluation.r2(), abs=1e-12)


@pytest.mark.parametrize(
    ("labels", "predictions", "r2", "explained", "relative"),
    [
        ([0.1, 0.1, 0.1], [0.1, 0.1, 0.1], 1, 1, 0),
        ([0.1, 0.1, 0.1], [0.2, 0.2, 0.2], 0, 1, 1),
        ([0.1, 0.1, 0.1], [0.1, 0.2, 0.3], 0, 0, 1),
        ([5.0], [5.0], 1, 1, 0),
        ([5.0], [4.0], 0, 1, 1),
    ],
)
def test_constant_labels_have_the_documented_values(
    labels: Any, predictions: Any, r2: float, explained: float, relative: float
) -> None:
    evaluation = regression(labels, predictions)
    assert evaluation.r2() == r2
    assert evaluation.explained_variance() == explained
    assert evaluation.relative_squared_error() == relative
    assert evaluation.pearson_correlation() == 0


def test_large_means_cost_no_digits() -> None:
    labels = 1e12 + np.array([0.0, 1.0, 2.0])
    evaluation = regression(labels, labels + np.array([0.5, 0.0, -0.5]))
    assert evaluation.r2() == 0.75
    assert evaluation.pearson_correlation() == 1.0


def test_metrics_of_the_ends_of_the_range_are_no_nan() -> None:
    evaluation = regression([1e-130, 2e-130, 1e-131], [1e150, -1e150, 1e150])
    assert evaluation.r2() == -math.inf
    assert evaluation.relative_squared_error() == math.inf
    assert evaluation.mean_squared_error() == pytest.approx(1e300)
    assert evaluation.root_mean_squared_error() == pytest.approx(1e150)
    many = regression(np.full((4, 9), 1e150), np.full((4, 9), -1e150))
    assert many.mean_squared_error() == pytest.approx(4e300)


def test_outputs_without_rows_are_left_out_of_averages() -> None:
    mask = [[1, 0], [1, 0]]
    evaluation = regression([[1, 5], [3, 5]], [[2.0, 9], [5.0, 9]], mask=mask, names=["a", "b"])
    assert evaluation.left_out() == ("b",)
    assert evaluation.mean_absolute_error() == 1.5
    assert evaluation.mean_absolute_error(of="b") == 0
    assert "without 1 of 2" in evaluation.summary()


def test_without_rows_every_metric_is_zero() -> None:
    for empty in (
        RegressionEvaluation(),
        RegressionEvaluation(["a", "b"]),
        regression(np.ones((0, 2)), np.ones((0, 2))),
        regression(np.ones((3, 2)), np.ones((3, 2)), mask=[0, 0, 0]),
    ):
        assert [getattr(empty, metric)() for metric in METRICS] == [0] * len(METRICS)
        assert empty.examples == 0
        assert "0 examples" in empty.summary()
    assert RegressionEvaluation(["a"]).r2(of="a") == 0
    assert RegressionEvaluation(["a"]).left_out() == ("a",)


def test_time_steps_count_as_rows() -> None:
    labels, predictions = np.arange(12.0).reshape(2, 3, 2), np.zeros((2, 3, 2))
    mask = np.array([[1, 1, 0], [1, 0, 0]])
    kept = mask.astype(bool)
    assert regression(labels, predictions, mask=mask) == regression(labels[kept], predictions[kept])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.uint64, np.bool_])
def test_numbers_of_any_type_count_with_their_value(dtype: Any) -> None:
    labels = np.array([0, 1, 1, 0]).astype(dtype)
    predictions = np.array([0.25, 0.5, 1, 0]).astype(dtype)
    assert regression(labels, predictions) == regression(
        labels.astype(np.float64), predictions.astype(np.float64)
    )


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e151, np.nan])
@pytest.mark.parametrize("what", ["labels", "predictions"])
def test_numbers_that_cannot_be_summed_are_refused(what: str, value: float) -> None:
    values = {"labels": np.ones((2, 2, 1)), "predictions": np.ones((2, 2, 1))}
    values[what][1, 0, 0] = value
    with pytest.raises(DataError, match=rf"{what}.*row 1, step 0"):
        regression(**values)
    assert regression(**values, mask=[[1, 1], [0, 1]]).examples == 3


def test_there_must_be_such_an_output_or_metric() -> None:
    evaluation = regression(np.ones((2, 2)), np.ones((2, 2)), names=["a", "b"])
    for of in ("c", 2, -1, True):
        with pytest.raises(ConfigurationError, match="`of` must be"):
            evaluation.r2(of=of)
    with pytest.raises(ConfigurationError, match="`metric` must be"):
        evaluation.per_output("mse")  # pyright: ignore[reportArgumentType]
    for names in ("ab", ["a", "a"], [], ["a", 5], ["a", "b", "c"]):
        with pytest.raises(ConfigurationError, match="names"):
            regression(np.ones((2, 2)), np.ones((2, 2)), names=names)


# Merging


@few
@given(table=tables(), data=st.data())
def test_parts_in_any_grouping_add_up_to_the_whole(
    table: tuple[np.ndarray, ...], data: st.DataObject
) -> None:
    labels, predictions, mask = table
    if labels.shape[1] == 1:
        mask = mask[:, 0]
    whole = regression(labels, predictions, mask=mask)
    part_of = data.draw(npst.arrays(np.int64, len(labels), elements=st.integers(0, 3)))
    parts = [
        RegressionEvaluation().updated(labels[at], predictions[at], mask=mask[at])
        for at in (part_of == part for part in data.draw(st.permutations(range(4))))
    ]
    while len(parts) > 1:
        i = data.draw(st.integers(0, len(parts) - 2))
        both = parts[i] + parts.pop(i + 1)
        parts[i] = RegressionEvaluation.from_json(both.to_json()) if i % 2 else both
    assert parts[0] == whole
    assert parts[0].to_json() == whole.to_json()


@pytest.mark.parametrize("distinct", [20, 2_000_000])
def test_parts_of_many_rows_add_up_to_the_whole(distinct: int) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, distinct, 300_000) / 7
    predictions = np.round(labels + rng.normal(size=labels.size), 0 if distinct == 20 else 9)
    whole = regression(labels, predictions)
    order = rng.permutation(labels.size)
    parts = [regression(labels[at], predictions[at]) for at in np.array_split(order, 7)]
    left = RegressionEvaluation()
    for part in parts:
        left = left + RegressionEvaluation.from_json(part.to_json())
    right = parts[0] + (parts[1] + (parts[2] + (parts[3] + (parts[4] + (parts[5] + parts[6])))))
    assert left == right == whole
    sample = whole.outputs[0].sample
    assert sample.counts.size == min(1000, len(np.unique(labels + 1j * predictions)))
    for label, prediction, count in zip(
        sample.labels[:20], sample.predictions[:20], sample.counts[:20], strict=True
    ):
        assert count == np.count_nonzero((labels == label) & (predictions == prediction))


def test_evaluations_of_other_data_differ() -> None:
    one = regression([1.0, 2.0], [1.5, 2.5])
    assert one != regression([1.0, 2.0], [2.5, 1.5])
    assert one != regression([1.0, 2.0], [1.5, 2.5], names=["a"])
    assert one != one + one
    assert one != 5


def test_the_prototype_changes_nothing() -> None:
    for names in (None, ["a", "b"]):
        prototype = RegressionEvaluation(names)
        some = regression(np.eye(2), np.ones((2, 2)), names=names)
        assert prototype + some == some + prototype == some
        assert prototype + prototype == prototype
        assert prototype.updated(np.eye(2), np.ones((2, 2))) == some


def test_evaluations_with_other_options_do_not_add_up() -> None:
    one, two = RegressionEvaluation(["a"]), RegressionEvaluation(["b"])
    with pytest.raises(DataError, match=r"'a'.*'b'"):
        one + two
    with pytest.raises(DataError, match="1 and 2 outputs"):
        regression([1], [1]) + regression([[1, 1]], [[1, 1]])


# The sample


def test_the_sample_is_as_large_as_its_bound_for_few_or_many_outputs() -> None:
    assert [points_per_output(n) for n in (1, 20, 100, 10**6)] == [1000, 1000, 200, 10]


def test_the_sample_is_even() -> None:
    values = np.arange(100_000.0)
    sample = PairSample.of(values, values, size=1000)
    counts, _ = np.histogram(sample.labels, bins=10, range=(0, 100_000))
    assert counts.min() > 60  # four standard deviations from 100


def test_the_sample_counts_every_pair_it_keeps() -> None:
    rng = np.random.default_rng(0)
    values = rng.permutation(np.repeat(np.arange(1500.0), 100))
    assert set(PairSample.of(values, values, size=1000).counts.tolist()) == {100}
    whole = PairSample.of(values, -values, size=1500)
    np.testing.assert_array_equal(np.sort(whole.labels), np.arange(1500))


def test_zero_is_one_number_whatever_its_sign() -> None:
    one, other = regression([0.0, -0.0], [-0.0, 0.0]), regression([0.0, 0.0], [0.0, 0.0])
    assert one == other
    assert one.to_json() == other.to_json()
    negative = PairSample.of(np.array([-0.0]), np.array([-0.0]), size=5)
    assert repr(negative.to_dict()) == repr(
        PairSample.of(np.zeros(1), np.zeros(1), size=5).to_dict()
    )


def test_numbers_too_small_to_square_count_as_zero() -> None:
    small = regression([1e-131, -1e-300, 5e-324], [1.0, 1e-150, 2.0])
    assert small == regression([0.0, 0.0, 0.0], [1.0, 0.0, 2.0])


# JSON


def test_json_keeps_everything_and_merges_afterwards() -> None:
    rng = np.random.default_rng(0)
    one = regression(rng.normal(size=(50, 3)), rng.normal(size=(50, 3)), names=["a", "b", "c"])
    back = RegressionEvaluation.from_dict(json.loads(json.dumps(one.to_dict())))
    assert back == one
    assert back + one == one + one
    assert pickle.loads(pickle.dumps(one)) == one
    assert RegressionEvaluation.from_dict(RegressionEvaluation(["a"]).to_dict()).names == ("a",)


def damaged(path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    values = regression([[1.0, 2], [3, 4], [5, 7]], [[1.0, 1], [2, 1], [3, 3]]).to_dict()
    place = values
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return values


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("name",), "roc"),
        (("names",), "ab"),
        (("names",), ["a"]),
        (("rows",), 2),
        (("rows",), 7),
        (("rows",), True),
        (("rows",), "3"),
        (("outputs",), {}),
        (("outputs",), [5]),
        (("outputs", 0), {}),
        (("outputs", 0, "count"), -3),
        (("outputs", 0, "count"), 0),
        (("outputs", 0, "count"), 4),
        (("outputs", 0, "count"), 3.0),
        (("outputs", 0, "largest_error"), math.nan),
        (("outputs", 0, "largest_error"), -1.0),
        (("outputs", 0, "largest_error"), "1"),
        (("outputs", 0, "largest_error"), 10**400),
        (("outputs", 0, "labels"), "x"),
        (("outputs", 0, "labels"), "1p800"),
        (("outputs", 0, "labels"), "1p7000"),
        (("outputs", 0, "products"), "1p900"),
        (("outputs", 0, "label_squares"), "-1p0"),
        (("outputs", 0, "label_squares"), "1p1000"),
        (("outputs", 0, "absolute_errors"), "0p0"),
        (("outputs", 0, "absolute_errors"), "1p900"),
        (("outputs", 0, "sample"), []),
        (("outputs", 0, "sample", "counts"), [1, 1]),
        (("outputs", 0, "sample", "counts"), [1, 1, 0]),
        (("outputs", 0, "sample", "counts"), [1, 1, 2]),
        (("outputs", 0, "sample", "counts"), [1, 1, 1 << 70]),
        (("outputs", 0, "sample", "counts"), [1] * 5000),
        (("outputs", 0, "sample", "labels"), [1.0, 3.0, "5"]),
        (("outputs", 0, "sample", "labels"), [1.0, 3.0, math.inf]),
        (("outputs", 0, "sample", "labels"), [1.0, 3.0, 10**400]),
        (("outputs", 0, "sample", "predictions"), None),
    ],
)
def test_damaged_values_are_refused(path: tuple[Any, ...], value: Any) -> None:
    with pytest.raises(DataError):
        RegressionEvaluation.from_dict(damaged(path, value))


def test_equal_pairs_in_a_sample_are_refused() -> None:
    sample = {"labels": [1.0, 1.0], "predictions": [2.0, 2.0], "counts": [1, 2]}
    with pytest.raises(DataError, match="different pairs"):
        PairSample.from_dict(sample, size=5, examples=3)


# Reports and plots


def test_reports_name_outputs_and_escape_them() -> None:
    rng = np.random.default_rng(0)
    labels, predictions = rng.normal(size=(40, 2)), rng.normal(size=(40, 2))
    evaluation = regression(labels, predictions, names=["<b>", "width"])
    text, html = evaluation.summary(), evaluation._repr_html_()
    assert f"{evaluation.r2(of='width'):.5g}" in text
    assert "average" in text
    assert "&lt;b&gt;" in html
    assert "<b>" not in html.replace("<p><b>", "")
    assert "average" in evaluation.summary(max_outputs=1)
    assert "width" not in evaluation.summary(max_outputs=1)
    assert "2 outputs" in repr(evaluation)
    assert evaluation.headline()["R²"] == evaluation.r2()
    assert isinstance(evaluation, AbstractEvaluation)


def test_plots_show_the_sample() -> None:
    rng = np.random.default_rng(0)
    labels = rng.normal(size=(3000, 8))
    evaluation = regression(labels, labels + rng.normal(size=labels.shape))
    axes = evaluation.plot(of=1)
    points = axes.collections[0].get_offsets()
    sample = evaluation.outputs[1].sample
    np.testing.assert_array_equal(points, np.stack([sample.labels, sample.predictions], axis=1))
    assert "sample of 1,000" in axes.get_title()
    axes = evaluation.plot_residuals(of=1)
    points = axes.collections[0].get_offsets()
    np.testing.assert_array_equal(points[:, 0], sample.predictions)
    np.testing.assert_array_equal(points[:, 1], sample.labels - sample.predictions)
    assert [each.get_xlabel() for each in axes.figure.axes] == ["predicted", "rows"]
    bars = axes.figure.axes[1].patches[0].get_path().vertices[:, 0].max()
    assert 0 < bars <= sample.counts.sum()
    assert len(evaluation.plot().collections) == 6  # of eight outputs
    plt.close("all")


def test_plots_draw_on_given_axes_and_without_data() -> None:
    evaluation = regression([1.0, 2.0, 3.0], [1.0, 2.5, 3.0])
    figure, axes = plt.subplots(1, 2)
    assert evaluation.plot(axes=axes[0]) is axes[0]
    assert evaluation.plot_residuals(axes=axes[1]) is axes[1]
    by_hand = figure.add_axes((0.1, 0.1, 0.5, 0.5))
    assert evaluation.plot_residuals(axes=by_hand) is by_hand
    assert "sample" not in axes[0].get_title()
    RegressionEvaluation().plot()
    RegressionEvaluation(["a"]).plot_residuals()
    for number in plt.get_fignums():
        plt.figure(number).canvas.draw()
    plt.close("all")
