"""The evaluation panel in a real browser: threshold and results by keys, narrow and dark."""

import pytest

pytestmark = pytest.mark.browser

# Neither Spark nor TensorFlow: what was found is given.
CELL = """
import numpy as np
from sparkwright.evaluation import (
    ROC, Evaluation, EvaluationCalibration, RegressionEvaluation, ROCMultiClass, WorstExamples)
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


def wait_until(page, expression, text):
    """Ask the kernel until it says `text`; it hears of a change a moment after the page."""
    for _ in range(100):
        if page.in_kernel(f"print({expression})") == text:
            return
        page.page.wait_for_timeout(50)
    assert page.in_kernel(f"print({expression})") == text


@pytest.fixture
def open_panel(lab_of):
    def open_panel(**options):
        page = lab_of(CELL, **options)
        page.page.locator(".sparkwright-threshold-point").first.wait_for()
        return page

    return open_panel


def test_keys_move_the_threshold_and_the_kernel_is_updated(open_panel):
    page = open_panel(width=420)
    slider = page.page.get_by_role("slider", name="Threshold: predicted positive from this")
    slider.scroll_into_view_if_needed()
    moved = "() => document.querySelector('.sparkwright-threshold-point').getAttribute('transform')"
    before, reading = page.page.evaluate(moved), slider.get_attribute("aria-valuetext")
    slider.focus()
    for _ in range(20):
        page.page.keyboard.press("ArrowRight")
    page.page.wait_for_function(f"(old) => ({moved})() !== old", arg=before)
    assert slider.get_attribute("aria-valuetext") != reading
    shown = "panel.shown.explorer.reading"
    page.page.wait_for_function(
        "(n) => document.querySelector('.sparkwright-threshold-cell b').textContent !== n", arg="-"
    )
    found = page.page.locator(".sparkwright-threshold-cell b").first.inner_text()
    wait_until(page, f"{shown}.true_positives", found.replace(",", ""))
    # Twenty updates a second at least: what a hundred of them take, in the page alone.
    spent_ms = page.page.evaluate(
        """async () => {
          const slider = document.querySelector('.sparkwright-threshold input[type=range]');
          const begin = performance.now();
          for (let i = 0; i < 100; i += 1) {
            slider.value = String(i * 3);
            slider.dispatchEvent(new Event('input'));
            await new Promise(requestAnimationFrame);
          }
          return performance.now() - begin;
        }"""
    )
    assert spent_ms < 100 * 50
    print(f"{spent_ms / 100:.1f} ms an update")
    page.page.get_by_role("button", name="Best F1").press("Enter")
    page.page.get_by_role("combobox", name="Class").select_option("<b>bee</b>")
    wait_until(page, "panel.shown.explorer.choice", "1")
    page.wait_until_it_fits(".sparkwright-part")
    page.page.locator(".sparkwright-threshold").scroll_into_view_if_needed()
    page.screenshot("evaluation-threshold-420px")
    page.set_theme("JupyterLab Dark")
    page.page.get_by_role("button", name="Worst examples").press("Enter")
    page.page.locator(".sparkwright-worst-list img").first.wait_for()
    page.page.locator(".sparkwright-worst-list").scroll_into_view_if_needed()
    page.screenshot("evaluation-worst-420px-dark")
    page.set_theme("JupyterLab Light")


def test_results_are_selected_by_keys_and_fit_a_wide_page(open_panel):
    page = open_panel(width=1280)
    choice = page.page.get_by_role("combobox", name="Result")
    choice.focus()
    page.page.keyboard.press("ArrowUp")
    wait_until(page, "panel.result_choice.value", "first")
    page.page.get_by_text("★").first.wait_for()
    page.wait_until_it_fits(".sparkwright-part")
    page.screenshot("evaluation-1280px")
    page.set_theme("JupyterLab Dark")
    page.page.locator(".sparkwright-threshold").scroll_into_view_if_needed()
    page.screenshot("evaluation-1280px-dark")
    page.set_theme("JupyterLab Light")
