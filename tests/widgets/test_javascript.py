from pathlib import Path

from sparkwright_widgets._assets import joined_module
from sparkwright_widgets._live_chart import MODULES, LiveChart

TESTS = Path(__file__).with_name("curve.test.mjs")


def test_the_data_side_of_the_chart_passes_its_own_tests(node):
    node(TESTS)


def test_the_widgets_module_is_one_text_with_one_default_export():
    module = joined_module(*MODULES)
    assert 'from "./' not in module
    assert module.count("export default") == 1
    assert LiveChart._esm == module


def test_keys_of_a_part_pass_their_own_tests(node):
    node(Path(__file__).with_name("keys.test.mjs"))
