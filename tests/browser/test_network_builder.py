import pytest

pytestmark = pytest.mark.browser

BUILDER = """
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._network_builder import NetworkBuilder
SAME = {{"filters": 16, "kernel_size": 3, "padding": "same"}}
builder = NetworkBuilder({value})
builder
"""
PROBLEM = "its kernel, 31 x 31, is larger than its input, 12 x 12."


@pytest.fixture
def open_builder(lab_of):
    """Open a notebook whose only cell shows a NetworkBuilder."""

    def open_builder(value="", **options):
        page = lab_of(BUILDER.format(value=value), **options)
        page.page.locator(".sparkwright-layers").wait_for()
        return page

    return open_builder


def add(page, kind):
    """Add a layer below the row in hand, by keys."""
    page.page.get_by_role("combobox", name="New layer").select_option(label=kind)
    page.page.get_by_role("button", name="Add below").press("Enter")


def fill(page, label, text):
    """Type into a field of the row in hand."""
    field = page.page.get_by_role("textbox", name=label, exact=True)
    field.fill(text)
    return field


def row(page, text):
    """The row of the list that says `text`."""
    return page.page.get_by_role("option").filter(has_text=text)


def test_lenet_is_built_broken_and_fixed_by_mouse_and_keyboard(open_builder):
    page = open_builder("NetworkSpec()")
    page.page.get_by_text("The network has no layers.").wait_for()
    add(page, "Input · core")
    row(page, "28 x 28 x 1").wait_for()
    for row_number, filters in ((2, 20), (4, 50)):
        add(page, "Conv2D · convolution")
        page.page.get_by_text(f"Row {row_number}: Conv2D").wait_for()
        fill(page, "Filters", str(filters))
        fill(page, "Kernel size", "5")
        page.page.get_by_role("combobox", name="Activation").select_option("relu")
        add(page, "MaxPooling2D · pooling")
        page.page.get_by_text(f"Row {row_number + 1}: MaxPooling2D").wait_for()
    row(page, "4 x 4 x 50").wait_for()
    add(page, "Flatten · reshaping")
    row(page, "800").wait_for()
    add(page, "Dense · core")
    fill(page, "Units", "500")
    row(page, "400,500 parameters").wait_for()
    add(page, "Dense · core")
    row(page, "dense_2").wait_for()
    fill(page, "Units", "10")
    page.page.get_by_role("combobox", name="Activation").select_option("softmax")
    page.page.get_by_role("status").filter(has_text="8 layers, 431,080 parameters").wait_for()
    assert page.in_kernel("print(builder.problem, builder.analysis.parameters)") == "None 431080"

    # Up the list by keys, and break the second convolution.
    page.page.get_by_role("listbox").focus()
    for _ in range(4):
        page.page.keyboard.press("ArrowUp")
    page.page.get_by_text("Row 4: Conv2D").wait_for()
    field = fill(page, "Kernel size", "31")
    row(page, "conv2d_2").filter(has_text=PROBLEM).wait_for()
    assert page.page.get_by_role("option").filter(has_text="waiting for row 4").count() == 4
    page.page.get_by_role("status").filter(has_text="Not ready").wait_for()
    page.screenshot("builder-problem")
    assert field.evaluate("(node) => node === document.activeElement")
    field.press("Backspace")
    field.press("Backspace")
    row(page, "conv2d_2").filter(has_text="must be one integer or several").wait_for()
    field.press("5")
    page.page.get_by_role("status").filter(has_text="431,080 parameters").wait_for()
    assert field.evaluate("(node) => node === document.activeElement")
    assert page.in_kernel("print(builder.problem, builder.analysis.parameters)") == "None 431080"


def test_keyboard_moves_deletes_and_restores_rows(open_builder):
    page = open_builder()
    page.page.get_by_role("listbox").focus()
    for key in ("End", "Alt+ArrowUp"):
        page.page.keyboard.press(key)
    row(page, "7").filter(has_text="classes").wait_for()
    page.page.keyboard.press("Delete")
    row(page, "classes").wait_for(state="detached")
    assert page.page.evaluate("document.activeElement.getAttribute('role')") == "listbox"
    page.page.get_by_role("button", name="Undo").press("Enter")
    row(page, "classes").wait_for()
    page.page.get_by_role("button", name="Undo").press("Enter")
    row(page, "8").filter(has_text="classes").wait_for()
    button = page.page.get_by_role("button", name="Move up")
    button.press("Enter")
    row(page, "7").filter(has_text="classes").wait_for()
    assert button.evaluate("(node) => node === document.activeElement")  # to press it again


TWO_WAYS = """NetworkSpec.from_dict({"layers": [
    {"kind": "Input", "name": "image", "options": {"shape": [32, 32, 3]}},
    {"kind": "Conv2D", "name": "conv_1", "options": SAME},
    {"kind": "Conv2D", "name": "conv_2", "options": SAME},
    {"kind": "Add", "name": "sum", "inputs": ["conv_2", "conv_1"]},
    {"kind": "GlobalAveragePooling2D", "name": "pool"},
    {"kind": "Dense", "name": "out", "options": {"units": 10, "activation": "softmax"}}],
    "outputs": [{"layer": "out", "loss": "sparse_categorical_crossentropy"}]})"""


def test_builder_fits_the_page(open_builder):
    page = open_builder(TWO_WAYS, height=3600)
    row(page, "sum").click()
    page.page.get_by_role("combobox", name="Input 2").wait_for()
    for name in ("Task, loss, optimizer", "Memory and traffic", "Python, JSON, YAML"):
        page.page.get_by_role("button", name=name).click()
    page.page.get_by_role("img", name="Graph of network").wait_for()
    page.page.get_by_role("textbox", name="Network as text").wait_for()
    page.in_kernel("builder.set_data(features={'features': (28, 28, 1)})")
    page.page.get_by_role("button", name="Use the data's shape: 28 x 28 x 1").wait_for()
    for width, theme in ((1280, "Light"), (420, "Dark")):
        page.set_theme(f"JupyterLab {theme}")
        page.page.set_viewport_size({"width": width, "height": 3600})
        page.wait_until_it_fits()
        page.screenshot(f"builder-{width}px-{theme.lower()}")
    page.set_theme("JupyterLab Light")


def node(page, row_number):
    """The box of a row in the graph."""
    return page.page.locator(f'.sparkwright-graph [data-row="{row_number - 1}"]')


def test_layer_is_selected_in_the_graph_and_fixed_by_a_button(open_builder):
    page = open_builder()
    node(page, 4).click()
    page.page.get_by_text("Row 4: Conv2D").wait_for()
    assert "sparkwright-node-selected" in node(page, 4).get_attribute("class")
    page.page.get_by_role("region", name="Graph").focus()
    page.page.keyboard.press("ArrowDown")
    page.page.get_by_text("Row 5: MaxPooling2D").wait_for()
    page.page.keyboard.press("ArrowUp")
    page.page.get_by_text("Row 4: Conv2D").wait_for()
    fill(page, "Kernel size", "13")
    page.page.locator(".sparkwright-node-problem").wait_for()
    page.page.get_by_role("button", name="Use 5").press("Enter")
    page.page.get_by_role("status").filter(has_text="Ready 8 layers").wait_for()
    assert page.page.get_by_role("textbox", name="Kernel size").input_value() == "5"


def test_keys_select_a_preset_for_tabular_data_that_lenet_rejects(open_builder):
    page = open_builder()
    page.in_kernel("builder.set_data({'x': (6,)}, {'y': ()}, {'y': 3})")
    button = page.page.get_by_role("button", name="Use the preset “Dense layers: tables, one")
    button.wait_for()
    assert page.page.get_by_role("button", name="Use the data's shape").count() == 0
    page.page.get_by_role("button", name="Presets").press("Enter")
    page.page.get_by_role("group", name="Presets").wait_for()
    page.page.keyboard.press("Tab")
    focused = page.page.evaluate("document.activeElement.textContent")
    assert focused == "Dense layerstables, one class each✓ fits your data"
    page.page.keyboard.press("Enter")
    page.page.get_by_role("status").filter(has_text="Ready 5 layers").wait_for()
    assert page.in_kernel("print(builder.problem, builder.spec.name)") == "None mlp"
