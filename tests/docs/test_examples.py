import runpy
import sys
from pathlib import Path

import keras
import pytest

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
def test_the_gan_learns_the_circle(monkeypatch):
    keras.utils.set_random_seed(1)
    monkeypatch.setattr(sys, "argv", ["gan.py", "--epochs", "40"])
    radius = runpy.run_path(str(EXAMPLES / "gan.py"))["main"]()
    # A network that has learned nothing makes points about the center.
    assert 0.7 < radius.mean() < 1.3
    assert radius.std() < 0.5
