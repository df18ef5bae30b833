from pathlib import Path

from sparkwright_widgets._network_builder._pane import LayerList

TESTS = Path(__file__).with_name("layer_list.test.mjs")


def test_javascript_tests_of_list_keys_pass(node):
    node(TESTS)


def test_unknown_actions_of_the_browser_are_ignored(comms):
    heard = []
    rows = LayerList()
    rows.on_action(heard.append)
    for content in ({"kind": "up"}, {"kind": "format the disk"}, {"kind": []}, "up", None):
        comms[-1].receive(content)
    assert heard == ["up"]
