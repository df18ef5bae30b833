import importlib.util
import re
from pathlib import Path

import pytest

# They train for a minute in all, which is too long for `make test`.
pytestmark = pytest.mark.notebook
EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"


def main_of(name):
    """`main` of a script, which is no module that executors could import."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def test_masked_series_are_classified_by_unmasked_steps(spark):
    found = main_of("masked_series")(spark)
    assert found["with masks"] > 0.9 > found["without"]


def test_quantized_network_is_as_accurate_and_smaller(spark):
    found = main_of("quantization")(spark)
    (accuracy, size), (quantized, smaller) = found["float32"], found["int8"]
    assert accuracy > 0.9
    assert abs(quantized - accuracy) < 0.02
    assert smaller < size / 2


@pytest.mark.usefixtures("in_process")
def test_autoencoder_explains_most_of_the_variance():
    assert main_of("autoencoder")() > 0.6


@pytest.mark.usefixtures("in_process")
def test_lora_adapts_and_sends_less():
    found = main_of("lora")()
    assert found["after"] > max(0.8, found["before"] + 0.05)
    assert found["bytes"]["LoRA"] < found["bytes"]["all"] / 5


@pytest.mark.usefixtures("in_process")
def test_keras_hub_classifier_learns():
    pytest.importorskip("keras_hub")
    assert main_of("keras_hub_classifier")() > 0.8


def test_readme_lists_every_script():
    listed = re.findall(r"^\| \[(\w+\.py)\]\(\1\)", (EXAMPLES / "README.md").read_text(), re.M)
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.glob("*.py"))
