from pathlib import Path

import pytest

from sparkwright_widgets._assets import joined_module
from sparkwright_widgets._live_chart import MODULES, LiveChart

FOLDER = Path(__file__).parent


@pytest.mark.parametrize(
    "name", ["curve", "keys", "runs_table", "network_builder/layer_list"], ids=lambda name: name
)
def test_modules_pass_their_javascript_tests(node, name):
    node(FOLDER / f"{name}.test.mjs")


def test_widgets_module_is_one_text_with_one_default_export():
    module = joined_module(*MODULES)
    assert 'from "./' not in module
    assert module.count("export default") == 1
    assert LiveChart._esm == module
