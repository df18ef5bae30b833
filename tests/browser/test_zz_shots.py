"""Screenshots for looking at; run from the worktree with -p tests.browser.conftest."""
import nbformat, pytest, os
from nbformat.v4 import new_code_cell, new_notebook

CELL = """
from dataclasses import replace
from sparkwright.networks import PRESETS, NetworkSpec
from sparkwright_widgets._network_builder import NetworkBuilder
def lenet(kernel=5):
    s = PRESETS["lenet"].make(); l = s.layers[3]
    return replace(s, layers=(*s.layers[:3], replace(l, options={**l.options, "kernel_size": kernel}), *s.layers[4:]))
builder = NetworkBuilder(VALUE)
builder.analysis
builder
"""
MASTER = """
from sparkwright.networks import PRESETS
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright_widgets._master_picker import TrainingMasterPicker
picker = TrainingMasterPicker(ParameterAveragingTrainingMaster(workers=5, repartition="never", averaging_frequency=40))
picker.set_context(rows=[20_000, 11_000, 19_990, 5_000], network=PRESETS["mlp"].make(), slots=4)
picker
"""
PARTS = """
from sparkwright_widgets._partition_preview import PartitionPreview
builder = preview = PartitionPreview.of_counts([980, 240, 120, 60, 40], workers=2, mode="never")
preview
"""
CASES = {
    "lenet": ("lenet()", "builder.editing.layers.selected = 3"),
    "two": ("PRESETS['two_inputs_two_outputs'].make()", "builder.editing.layers.selected = 7"),
    "residual": ("PRESETS['residual_cnn'].make()", "builder.editing.layers.selected = 11"),
    "broken": ("lenet(13)", "builder.editing.layers.selected = 3"),
    "master": ("", "picker.assumptions.fields['step_ms'].control.value = '2.5'"),
    "parts": ("", "1"),
    "gallery": ("lenet()", "builder.editing.presets.set_opened(True); builder.set_data(features={'x': (6,)}, labels={'y': ()}, classes={'y': 3})"),
}

@pytest.mark.browser
def test_shots(lab, tmp_path):
    for name in "two gallery broken master parts".split():
        value, code = CASES[name]
        path = tmp_path / f"{name}.ipynb"
        cell = {"master": MASTER, "parts": PARTS}.get(name) or CELL.replace("VALUE", value)
        nbformat.write(new_notebook(cells=[new_code_cell(cell)]), path)
        page = lab(path, height=1100)
        page.run_all()
        page.page.locator(".sparkwright-panel").wait_for()
        page.wait_idle()
        page.in_kernel(code)
        page.page.wait_for_timeout(400)
        for width, theme in ((1280, "Light"), (1280, "Dark"), (420, "Light"), (420, "Dark")):
            if theme == "Dark" and width == 420 and name not in ("lenet", "broken", "master"): continue
            page.set_theme(f"JupyterLab {theme}")
            page.page.set_viewport_size({"width": width, "height": 1100 if width > 500 else 1500})
            page.page.wait_for_timeout(300)
            page.screenshot(f"look-{name}-{width}-{theme.lower()}")
        page.set_theme("JupyterLab Light")
        page.shut_down_kernels()
