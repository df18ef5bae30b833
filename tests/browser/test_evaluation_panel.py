# Neither Spark nor TensorFlow: what was found is given.
CELL = """
import numpy as np
from sparkwright.evaluation import (
    Evaluation, EvaluationCalibration, ROCMultiClass, WorstExamples)
from sparkwright_widgets._evaluation_panel import EvaluationPanel

def found(noise):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, 900)
    logits = random.normal(size=(900, 3)) * noise
    logits[np.arange(900), labels] += 2
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    names = ("ant", "<b>bee</b>", "cat")
    images = random.random((900, 12, 12, 1)).astype(np.float32)
    worst = WorstExamples.of_rows(
        -np.log(p[np.arange(900), labels]), {"image": images}, {"kind": labels}, {"kind": p},
        count=6, class_names={"kind": names})
    return [Evaluation.from_predictions(labels, p, class_names=names),
            ROCMultiClass.from_predictions(labels, p, class_names=names),
            EvaluationCalibration.from_predictions(labels, p, class_names=names), worst]

panel = EvaluationPanel()
panel.add("first", found(2.0))
panel.add("second", found(1.4))
display(panel)
"""


POINT = "document.querySelector('.sparkwright-threshold-point').getAttribute('transform')"


def test_threshold_and_result_are_selected_by_keys_and_all_fits(lab_of):
    page = lab_of(CELL, width=420)
    page.page.locator(".sparkwright-threshold-point").first.wait_for()
    slider = page.page.get_by_role("slider", name="Threshold: predicted positive from this")
    before, reading = page.page.evaluate(POINT), slider.get_attribute("aria-valuetext")
    for _ in range(20):
        slider.press("ArrowRight")
    page.page.wait_for_function(f"(old) => {POINT} !== old", arg=before)
    assert slider.get_attribute("aria-valuetext") != reading
    cell = page.page.locator(".sparkwright-threshold-cell b").first
    expect_count = "panel.shown.explorer.reading.true_positives"
    page.wait_until_kernel_prints(expect_count, cell.inner_text().replace(",", ""))
    page.press("Best F1")
    page.page.get_by_role("combobox", name="Class").select_option("<b>bee</b>")
    page.wait_until_kernel_prints("panel.shown.explorer.choice", "1")
    page.show_at("evaluation", 420, "Light", ".sparkwright-part")
    page.press("Worst examples")
    page.page.locator(".sparkwright-worst-list img").first.wait_for()
    page.page.get_by_role("combobox", name="Result").press("ArrowUp")
    page.wait_until_kernel_prints("panel.result_choice.value", "first")
    page.page.get_by_text("★").first.wait_for()
    page.show_at("evaluation", 1280, "Dark", ".sparkwright-part")
