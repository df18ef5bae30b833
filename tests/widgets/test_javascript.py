from pathlib import Path

from tests.cases import cases

from sparkwright_widgets._assets import joined_module
from sparkwright_widgets._evaluation_panel._threshold_explorer import ThresholdExplorer
from sparkwright_widgets._live_chart import MODULES, LiveChart
from sparkwright_widgets._network_builder._pane import LayerList
from sparkwright_widgets._runs_grid import RunsGrid

FOLDER = Path(__file__).parent


@cases("name", "curve", "keys", "runs_table", "network_builder/layer_list", ids=lambda name: name)
def test_modules_pass_their_javascript_tests(node, name):
    node(FOLDER / f"{name}.test.mjs")


def test_widgets_module_is_one_text_with_one_default_export():
    module = joined_module(*MODULES)
    assert 'from "./' not in module
    assert module.count("export default") == 1
    assert LiveChart._esm == module


@cases(
    "widget, names",
    (LayerList, ["selected"]),
    (RunsGrid, ["selected"]),
    (ThresholdExplorer, ["choice", "place", "cost_false_positive", "cost_false_negative"]),
)
def test_what_page_and_kernel_both_set_is_echoed(widget, names):
    """Else the page keeps a value that the kernel sent before it heard of the page's."""
    for name in names:
        assert widget.class_traits()[name].metadata.get("echo_update", True)
