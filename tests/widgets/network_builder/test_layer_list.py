import shutil
import subprocess
from pathlib import Path

import pytest

from sparkwright_widgets._network_builder._layer_list import LayerList

TESTS = Path(__file__).with_name("layer_list.test.mjs")


def test_the_lists_keys_pass_their_own_tests():
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node.js is not installed: `node --test` checks the list's JavaScript")
    done = subprocess.run(
        [node, "--test", str(TESTS)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_only_known_actions_are_heard_from_the_browser(comms):
    heard = []
    rows = LayerList()
    rows.on_action(heard.append)
    for content in ({"kind": "up"}, {"kind": "format the disk"}, {"kind": []}, "up", None):
        comms[-1].receive(content)
    assert heard == ["up"]
