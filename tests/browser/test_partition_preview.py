"""The partition preview in a real browser: by keys, narrow and wide, light and dark."""

import pytest

pytestmark = pytest.mark.browser

CELL = """
from sparkwright_widgets._partition_preview import PartitionPreview
rows = [5200, 800, 2100, 60, 1900, 400]
labels = [[round(n * s) for s in shares] for n, shares in zip(rows, [
    (.7, .1, .1, .1), (.25, .25, .25, .25), (.1, .6, .2, .1), (0, 0, 1, 0), (.2, .2, .2, .4),
    (.3, .3, .3, .1)])]
preview = PartitionPreview.of_counts(
    [sum(line) for line in labels], labels, ["cat", "dog", "owl", "a very long name of a class"],
    workers=3)
preview
"""


def test_repartition_is_selected_by_keys_and_shown_at_any_width(lab_of):
    page = lab_of(CELL, width=420, height=1900)
    page.page.get_by_role("heading", name="Partitions").wait_for()
    page.page.get_by_role("img", name="Rows of 3 workers").wait_for()
    page.wait_until_it_fits()
    page.screenshot("partition-preview-420px")
    page.page.get_by_role("combobox", name="Repartition").focus()
    page.page.keyboard.type("ne")  # never
    page.page.get_by_text("is only grouped into whole partitions per worker").wait_for()
    assert page.in_kernel("print(preview.mode)") == "never"
    page.page.get_by_role("textbox", name="Workers").fill("0")
    page.page.get_by_role("alert").filter(has_text="at least 1").wait_for()
    page.page.get_by_role("textbox", name="Workers").fill("6")
    page.page.get_by_role("img", name="Rows of 6 workers").wait_for()
    page.page.get_by_text("Chart data as a table").focus()
    page.page.keyboard.press("Enter")
    page.page.get_by_role("rowheader", name="5", exact=True).wait_for()
    page.set_theme("JupyterLab Dark")
    page.page.set_viewport_size({"width": 1280, "height": 1500})
    page.page.get_by_role("button", name="Count rows and labels").wait_for()
    page.wait_until_it_fits()
    page.screenshot("partition-preview-1280px-dark")
    page.set_theme("JupyterLab Light")
