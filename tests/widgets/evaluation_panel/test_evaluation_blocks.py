import re

import numpy as np
import pytest
from tests.cases import cases
from tests.widgets.evaluation_panel import found

import sparkwright as sw
from sparkwright.evaluation import WorstExamples
from sparkwright_widgets._evaluation_blocks import (
    blocks_of,
    comparison_blocks,
    evaluation_figures,
    worst_blocks,
)
from sparkwright_widgets._worst_examples import guess_kind


def test_every_picture_has_alt_text_a_caption_and_a_table():
    several = [*found.of_classes(), *found.of_scores(), *found.of_answers(), *found.of_numbers(2)]
    everything = evaluation_figures(several)
    pictures = [block.html for block in everything if "<figure>" in block.html]
    assert len(pictures) >= 14
    for html in pictures:
        assert re.search(r'<svg role="img" aria-label="[^"]{20,}"', html)
        assert re.search(r"<figcaption>[^<]{15,}</figcaption>", html)
        assert "<details><summary>" in html
        assert "<table" in html
    html = "".join(block.html for block in everything)
    assert "<b>bee</b>" not in html
    assert "&lt;b&gt;bee" in html
    assert "currentColor" in html  # for light and dark pages


def test_caption_matches_the_numbers():
    evaluation = sw.Evaluation(confusion=np.array([[8, 2], [0, 10]]), class_names=("cat", "dog"))
    _, confusion, rates = blocks_of(evaluation)
    assert "18 of 20 correct (90.0%)" in confusion.text
    assert "F1 ranges from 0.8889 (cat) to 0.9091 (dog)." in rates.text
    assert re.search(r"^cat +10 +8 +1\.0000 +0\.8000 +0\.8889$", rates.text, re.MULTILINE)


def test_a_roc_has_its_area_and_exact_points():
    roc = found.of_scores()[1]
    headline, curve, precision = blocks_of(roc)
    assert f"AUC: {roc.auc:.4f}" in headline.text
    assert f"AUC {roc.auc:.4f}; guessing gives 0.5." in curve.text
    assert f"guessing gives {roc.positives / roc.examples:.4f}" in precision.text
    threshold, share, recall, _ = re.findall(r"^([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$",
                                             curve.text, re.MULTILINE)[3]  # fmt: skip
    point = roc.precision_recall_curve().point_at_threshold(float(threshold) - 1e-4)
    assert (point.precision, point.recall) == pytest.approx((float(share), float(recall)), abs=0.02)


@pytest.mark.thorough
def test_calibration_uses_class_1_if_binary_else_the_predicted_class():
    two = blocks_of(found.of_scores()[2])
    assert "Reliability diagram of class 1" in two[1].html
    three = found.of_classes()[2]
    assert "fraction correct" in blocks_of(three)[1].text
    assert "rows of cat" in blocks_of(three, of="cat")[2].text
    sure = sw.EvaluationCalibration.from_predictions([0, 1, 0, 1], np.full((4, 1), 0.9))
    assert "On average, probabilities are too high by 0.4000." in blocks_of(sure)[1].text


@pytest.mark.thorough
def test_a_regression_is_compared_with_always_predicting_the_mean():
    actual = np.array([[1.0], [2.0], [3.0], [6.0]])
    good = blocks_of(sw.RegressionEvaluation.from_predictions(actual, actual + 0.5))
    assert "Better than always predicting the mean: R² 0.9286" in good[1].text
    assert "1.871" in good[1].text  # the RMSE of the mean
    bad = blocks_of(sw.RegressionEvaluation.from_predictions(actual, -actual))
    assert "No better than always" in bad[1].text
    assert "Predictions are on average 0.5000 too high" in good[3].text


@cases(
    "empty",
    *(sw.Evaluation(), sw.ROC(), sw.EvaluationCalibration(), sw.RegressionEvaluation()),
    sw.ROC.from_predictions([1, 1], [0.2, 0.3]),  # of a single class
)
def test_evaluation_without_a_curve_shows_only_a_headline(empty):
    assert [block.kind for block in evaluation_figures(empty)] == ["headline"]


@pytest.mark.thorough
def test_html_of_many_classes_stays_small():
    random = np.random.default_rng(0)
    counts = random.integers(0, 3, (300, 300)) + 20 * np.eye(300, dtype=int)
    counts[7, 9] = 500
    blocks = blocks_of(sw.Evaluation(confusion=counts))
    assert sum(len(block.html) for block in blocks) < 400_000
    assert re.search(r"^7 +9 +500 ", blocks[1].text, re.MULTILINE)
    assert "(270 more rows omitted)" in blocks[2].html


def test_other_types_raise_and_every_evaluation_has_a_headline():
    own = sw.CustomEvaluation(lambda labels, _p, _m: len(labels), lambda a, b: a + b, title="rows")
    assert "rows: 2.000" in evaluation_figures(own.updated([1, 2], [1, 2]))[0].text
    with pytest.raises(sw.ConfigurationError, match="Received: int"):
        evaluation_figures([3])


def test_best_value_of_each_column_is_marked_and_lower_errors_are_better():
    good, bad = found.of_scores(noise=0.8), found.of_scores(noise=3.0)
    table, roc, _ = comparison_blocks({"bad": bad, "<i>good</i>": good})
    lines = table.text.splitlines()
    assert "★" not in next(line for line in lines if line.startswith("bad"))
    assert next(line for line in lines if line.startswith("<i>good")).count("★") >= 10
    assert "<i>good</i>" not in table.html
    assert "<b>★" in table.html
    assert f"The largest AUC is {good[1].auc:.4f} (<i>good</i>)." in roc.text


def test_multiclass_results_are_compared_by_the_most_different_class():
    blocks = comparison_blocks({"a": found.of_classes()[:3], "b": found.of_classes(noise=3)[:3]})
    assert len(blocks) == 3
    assert re.search(
        r"The largest AUC of .+, the class with the largest difference, is", blocks[1].text
    )
    assert comparison_blocks({}) == []
    assert "★" not in comparison_blocks({"a": found.of_scores()})[0].text


def test_worst_examples_show_label_prediction_and_location():
    worst = found.of_classes()[3]
    first = worst.examples[0]
    (block,) = worst_blocks(worst)
    assert block.html.count("data:image/png;base64,") == 4
    assert f'alt="image of partition 0, row {first.row}"' in block.html
    said = int(np.argmax(first.predictions["kind"]))
    is_, says = found.NAMES[int(first.labels["kind"])], found.NAMES[said]
    probability = f"{first.predictions['kind'][said]:.1%}"
    assert re.search(rf"row {first.row} .*{is_} +{says} \({probability}\)", block.text)


@cases(
    "features, sign",
    (np.zeros((5, 12, 12, 3), np.uint8), "<img "),
    (np.full((5, 30, 30), np.nan), "<img "),
    (np.zeros((5, 40, 2)), "<svg "),
    (np.arange(100.0).reshape(5, 20), "(20 in all)"),
    (np.zeros((5, 2, 3, 4, 5)), "(120 in all)"),
    (np.zeros((5, 900, 900, 1), np.float32), "<img "),
    (np.array([[np.inf, 1.0]] * 5), "inf"),
)
@cases("look", "automatic", "image", "sequence", "row")
def test_features_of_any_shape_are_shown(features, sign, look):
    worst = WorstExamples.of_rows(np.arange(5.0), {"x": features}, {}, count=2)
    (block,) = worst_blocks(worst, look=look)
    assert len(block.html) < 60_000
    if look == "automatic":
        assert sign in block.html


def test_flattened_image_can_be_shown_as_an_image():
    row = np.random.default_rng(0).random((1, 784))
    worst = WorstExamples.of_rows([1.0], {"x": row}, {}, count=1)
    assert guess_kind(row[0]) == "row"
    assert "<img " in worst_blocks(worst, look="image")[0].html
