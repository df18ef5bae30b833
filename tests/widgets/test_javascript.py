from pathlib import Path

from sparkwright_widgets._assets import joined_module
from sparkwright_widgets._live_chart import MODULES, LiveChart

TESTS = Path(__file__).with_name("curve.test.mjs")


def test_chart_data_module_passes_its_javascript_tests(node):
    node(TESTS)


def test_widgets_module_is_one_text_with_one_default_export():
    module = joined_module(*MODULES)
    assert 'from "./' not in module
    assert module.count("export default") == 1
    assert LiveChart._esm == module


def test_widget_keyboard_module_passes_its_javascript_tests(node):
    node(Path(__file__).with_name("keys.test.mjs"))
