BUILDER = """
from sparkwright.networks import NetworkSpec
from sparkwright_widgets._network_builder import NetworkBuilder
SAME = {{"filters": 16, "kernel_size": 3, "padding": "same"}}
builder = NetworkBuilder({value})
builder
"""
PROBLEM = "output size would be zero or negative"


def add(page, kind):
    """Add a layer below the row in hand, by keys."""
    page.page.get_by_role("combobox", name="New layer").select_option(label=kind)
    page.press("Add below")


def fill(page, label, text):
    """Type into a field of the row in hand."""
    field = page.page.get_by_role("textbox", name=label, exact=True)
    field.fill(text)
    return field


def row(page, text):
    """The row of the list that says `text`."""
    return page.page.locator(".sparkwright-layer", has_text=text)


def wait_for_status(page, words):
    page.page.get_by_role("status").filter(has_text=words).wait_for()


def wait_for_focus(page, locator):
    is_focused = "(node) => node === document.activeElement"
    page.page.wait_for_function(is_focused, arg=locator.element_handle())


def build_break_and_fix_a_network(page):
    page.page.get_by_text("The network has no layers.").wait_for()
    add(page, "Input · core")
    row(page, "28 x 28 x 1").wait_for()
    add(page, "Conv2D · convolution")
    page.page.get_by_text("Row 2: Conv2D").wait_for()
    fill(page, "Filters", "20")
    fill(page, "Kernel size", "5")
    page.page.get_by_role("combobox", name="Activation").select_option("relu")
    add(page, "Flatten · reshaping")
    page.page.get_by_text("Row 3: Flatten").wait_for()
    add(page, "Dense · core")
    fill(page, "Units", "10")
    page.page.get_by_role("combobox", name="Activation").select_option("softmax")
    wait_for_status(page, "4 layers, 115,730 parameters")
    assert page.in_kernel("print(builder.problem, builder.analysis.parameters)") == "None 115730"

    # Up the list by keys, and break the convolution.
    page.page.get_by_role("listbox").press("ArrowUp")
    page.page.get_by_role("listbox").press("ArrowUp")
    page.page.get_by_text("Row 2: Conv2D").wait_for()
    field = fill(page, "Kernel size", "31")
    row(page, "conv2d").filter(has_text=PROBLEM).wait_for()
    assert row(page, "waiting for row 2").count() == 2
    wait_for_status(page, "Not ready")
    wait_for_focus(page, field)
    field.press("Backspace")
    field.press("Backspace")
    row(page, "conv2d").filter(has_text="must be one integer or several").wait_for()
    field.press("5")
    wait_for_status(page, "115,730 parameters")
    wait_for_focus(page, field)
    assert page.in_kernel("print(builder.problem, builder.analysis.parameters)") == "None 115730"


TWO_WAYS = """NetworkSpec.from_dict({"layers": [
    {"kind": "Input", "name": "image", "options": {"shape": [32, 32, 3]}},
    {"kind": "Conv2D", "name": "conv_1", "options": SAME},
    {"kind": "Conv2D", "name": "conv_2", "options": SAME},
    {"kind": "Add", "name": "sum", "inputs": ["conv_2", "conv_1"]},
    {"kind": "GlobalAveragePooling2D", "name": "pool"},
    {"kind": "Dense", "name": "out", "options": {"units": 10, "activation": "softmax"}}],
    "outputs": [{"layer": "out", "loss": "sparse_categorical_crossentropy"}]})"""


def fit_the_page(page):
    row(page, "sum").click()
    page.page.get_by_role("combobox", name="Input 2").wait_for()
    for name in ("Task, loss, optimizer", "Python, JSON, YAML"):
        page.page.get_by_role("button", name=name).click()
    page.page.get_by_role("img", name="Graph of network").wait_for()
    page.page.get_by_role("textbox", name="Network as text").wait_for()
    page.in_kernel("builder.set_data(features={'features': (28, 28, 1)})")
    page.page.get_by_role("button", name="Use the data's shape: 28 x 28 x 1").wait_for()
    page.show_at("builder", 1280, "Light")
    page.show_at("builder", 420, "Dark")


def node(page, row_number):
    """The box of a row in the graph."""
    return page.page.locator(f'.sparkwright-graph [data-row="{row_number - 1}"]')


def use_rows_boxes_and_presets(page):
    page.page.get_by_role("listbox").press("End")
    page.page.get_by_role("listbox").press("Alt+ArrowUp")
    row(page, "7").filter(has_text="classes").wait_for()
    page.page.keyboard.press("Delete")
    row(page, "classes").wait_for(state="detached")
    wait_for_focus(page, page.page.get_by_role("listbox"))
    for place in ("7", "8"):
        page.press("Undo")
        row(page, place).filter(has_text="classes").wait_for()
    page.press("Move up")
    row(page, "7").filter(has_text="classes").wait_for()
    wait_for_focus(page, page.page.get_by_role("button", name="Move up"))  # to press it again
    page.press("Undo")
    row(page, "8").filter(has_text="classes").wait_for()

    node(page, 4).click()
    page.page.get_by_text("Row 4: Conv2D").wait_for()
    node(page, 4).and_(page.page.locator(".sparkwright-node-selected")).wait_for()
    graph = page.page.get_by_role("region", name="Graph")
    graph.press("ArrowDown")
    page.page.get_by_text("Row 5: MaxPooling2D").wait_for()
    graph.press("ArrowUp")
    page.page.get_by_text("Row 4: Conv2D").wait_for()
    fill(page, "Kernel size", "13")
    page.page.locator(".sparkwright-node-problem").wait_for()
    page.press("Undo")
    wait_for_status(page, "Ready 8 layers")
    assert page.page.get_by_role("textbox", name="Kernel size").input_value() == "5"

    page.in_kernel("builder.set_data({'x': (6,)}, {'y': ()}, {'y': 3})")
    page.page.get_by_role("button", name="Use the preset “Dense layers: tables, one").wait_for()
    page.page.get_by_role("button", name="Presets").press("Enter")
    page.page.get_by_role("group", name="Presets").wait_for()
    page.page.keyboard.press("Tab")
    focused = page.page.evaluate("document.activeElement.textContent")
    assert focused == "Dense layerstables, one class each✓ fits your data"
    page.page.keyboard.press("Enter")
    wait_for_status(page, "Ready 5 layers")
    assert page.in_kernel("print(builder.problem, builder.spec.name)") == "None mlp"


def test_networks_are_built_changed_and_fixed_by_mouse_and_keys(lab_of):
    """Only a browser moves the focus, along rows and boxes, to what is left, and has a width.

    One kernel for all parts, because it imports Keras.
    """
    parts = {
        "NetworkSpec()": build_break_and_fix_a_network,
        "": use_rows_boxes_and_presets,
        TWO_WAYS: fit_the_page,
    }
    page = lab_of("", height=3600)
    for value, use in parts.items():
        page.replace_cell(BUILDER.format(value=value))
        page.wait_idle()
        use(page)
