"""The data picker in a real browser: found with the keyboard alone, seen narrow and in the dark."""

import numpy as np
import pytest

pytestmark = pytest.mark.browser

SPECIES = ("setosa", "versicolor", "virginica")


@pytest.fixture
def open_picker(lab_of):
    """Open a notebook that shows a DataPicker, beside a folder of data."""
    random = np.random.default_rng(3)
    lines = ["width,length,town,species"]
    for row in range(300):
        width = "" if row == 41 else f"{random.normal(5, 1):.2f}"
        town = ("Rome", "Oslo")[row % 2]
        lines.append(f"{width},{random.normal(3, 1):.2f},{town},{SPECIES[row % 3]}")
    code = (
        "from pathlib import Path\n"
        "Path('data').mkdir(exist_ok=True)\n"
        f"lines = {lines!r}\n"
        "Path('data/iris.csv').write_text('\\n'.join(lines))\n"
        "from sparkwright_widgets._data_picker import DataPicker\n"
        "picker = DataPicker()\npicker"
    )

    def open_picker(**options):
        page = lab_of(code, **options)
        page.page.locator(".sparkwright-data-picker").wait_for()
        return page

    return open_picker


def test_keyboard_selects_data_and_changes_its_label(open_picker):
    page = open_picker(height=1500)
    look = page.page
    look.get_by_text("all 1,797 images").wait_for()
    look.locator(".sparkwright-pictures img").first.wait_for()
    page.screenshot("data-picker-digits")

    # Handwritten digits -> CSV by typing ahead in the list of formats.
    look.get_by_label("Format", exact=True).focus()
    look.keyboard.press("C")
    look.get_by_role("button", name="Browse folders").focus()
    look.keyboard.press("Enter")
    listed = look.get_by_label("Folders and files")
    listed.locator("option", has_text="data/").wait_for(state="attached")
    look.get_by_role("button", name="Open folder", disabled=False).focus()
    look.keyboard.press("Enter")
    listed.locator("option", has_text="iris.csv").wait_for(state="attached")
    look.get_by_role("button", name="Use this file", disabled=False).focus()
    look.keyboard.press("Enter")

    look.get_by_text("all 300 rows", exact=True).wait_for()
    look.get_by_text("iris.csv, line 43: column 'width' must hold a value").wait_for()
    page.screenshot("data-picker-csv")
    look.get_by_label("Label (column to predict)").focus()
    look.keyboard.press("t")  # town
    look.get_by_role("columnheader", name="town (label)").wait_for()
    assert page.in_kernel("picker.settle(); print(picker.source.label)") == "town"
    assert "missing=" in page.in_kernel("print(picker.problem)")


def test_data_picker_fits_a_narrow_page_in_dark_mode(open_picker):
    page = open_picker(width=420, height=2400)
    page.set_theme("JupyterLab Dark")
    page.in_kernel("picker.place.url.value = 'data/iris.csv'; picker.settle()")
    page.page.get_by_text("all 300 rows", exact=True).wait_for()
    page.in_kernel("[f.set_opened(True) for f in (picker.columns.fold, picker.statistics_fold)]")
    page.page.get_by_role("columnheader", name="Std", exact=True).wait_for()
    page.screenshot("data-picker-narrow-dark")
    wide = page.page.evaluate(
        "() => { const box = document.querySelector('.sparkwright-data-picker');"
        " return box.scrollWidth - box.clientWidth; }"
    )
    assert wide <= 1
