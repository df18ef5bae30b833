"""The picker in a real browser: keys, errors at fields, folds, narrow, dark."""

import pytest

pytestmark = pytest.mark.browser

CODE = """\
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec
from sparkwright_widgets._master_picker import TrainingMasterPicker
network = NetworkSpec(
    layers=(
        LayerSpec(kind="Input", name="features", options={"shape": [784]}),
        LayerSpec(kind="Dense", name="hidden", options={"units": 512}),
        LayerSpec(kind="Dense", name="out", options={"units": 10}),
    ),
    outputs=(OutputSpec(layer="out", loss="mse"),),
    task="regression",
)
picker = TrainingMasterPicker()
picker.set_context(rows=[20_000, 20_000, 19_990], network=network, slots=4)
picker"""


@pytest.fixture
def open_picker(lab_of):
    def open_picker(**options):
        page = lab_of(CODE, **options)
        page.page.locator(".sparkwright-forecast").wait_for()
        page.wait_idle()
        return page

    return open_picker


def type_into(page, label, text):
    box = page.page.get_by_label(label, exact=True)
    box.focus()
    page.page.keyboard.press("ControlOrMeta+a")
    page.page.keyboard.type(text)


def test_master_is_selected_by_keys_and_errors_are_shown_at_the_field(open_picker):
    page = open_picker(height=1400)
    type_into(page, "Average after (minibatches)", "10")
    page.page.locator(".sparkwright-figures", has_text="Examples per round 640").wait_for()
    type_into(page, "Time per minibatch (ms)", "20")
    page.page.locator(".sparkwright-verdict", has_text="of 20 ms take 200 ms").wait_for()
    page.screenshot("master-picker")
    type_into(page, "Workers", "0")
    page.page.get_by_role("alert").filter(has_text="`workers` must be").wait_for()
    type_into(page, "Workers", "2")
    page.page.get_by_role("alert").filter(has_text="`workers` must be").wait_for(state="detached")
    page.page.get_by_role("button", name="Gradient sharing").focus()
    page.page.keyboard.press("Enter")
    fold = page.page.get_by_role("button", name="Encoding")
    fold.focus()
    page.page.keyboard.press("Enter")
    page.page.get_by_label("Threshold algorithm").select_option("fixed")
    page.page.get_by_label("Threshold", exact=True).wait_for()
    page.screenshot("master-picker-sharing")
    page.wait_idle()
    found = page.in_kernel("print(picker.master.workers, picker.master.threshold, picker.problem)")
    assert found == "2 FixedThreshold(threshold=0.001) None"


def test_master_picker_fits_a_narrow_page_in_dark_mode(open_picker):
    page = open_picker(width=420, height=2400)
    page.set_theme("JupyterLab Dark")
    page.page.get_by_role("button", name="Failures and diagnostics").click()
    page.page.get_by_label("When a loss is NaN or infinite").wait_for()
    overflow = page.page.evaluate(
        "() => { const part = document.querySelector('.sparkwright-part');"
        " return part.scrollWidth - part.clientWidth; }"
    )
    page.screenshot("master-picker-narrow-dark")
    assert overflow <= 1
