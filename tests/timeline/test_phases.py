import re
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

import sparkwright
from sparkwright.errors import ConfigurationError
from sparkwright.timeline import PHASES, PhaseCode, phase_of
from sparkwright.timeline.phases import DL4J_NAMES, Group

PAGE = (Path(__file__).parents[2] / "docs" / "timeline.md").read_text(encoding="utf-8")
PLATE = "#f1f3f5"  # what the lanes lie on


def linear(color):
    values = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def contrast(one, other):
    weights = np.array([0.2126, 0.7152, 0.0722])
    low, high = sorted(float(linear(color) @ weights) for color in (one, other))
    return (high + 0.05) / (low + 0.05)


def test_phase_codes_are_stable():
    """They are in saved timelines."""
    of_workers = (
        *("QUEUED", "SHARD", "TENSORFLOW", "BUILD", "TRACE", "FIRST_DATA", "DATA", "COMPUTE"),
        *("ENCODE", "SEND", "WAIT", "AVERAGE", "APPLY", "VALIDATE", "CHECKPOINT", "DELIVER"),
        *("STATE", "ASSEMBLE", "WORK", "OVERLAP", "HISTOGRAMS"),
    )
    of_driver = (
        *("COUNT", "LAYOUT", "SUBMIT", "GATHER", "TRAIN", "FINISH", "SPLIT", "MAP_PARTITIONS"),
        *("AGGREGATE", "PROCESS_PARAMS", "BROADCAST", "EXPORT"),
    )
    codes = [*enumerate(of_workers), *enumerate(of_driver, start=32)]
    assert [(int(code), code.name) for code in PhaseCode] == codes


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_every_phase_is_described_in_colors_that_contrast_with_the_lanes(phase):
    assert phase.meaning.endswith(".")
    assert phase.group in get_args(Group)
    assert phase_of(phase.code) is phase
    # 3 to 1 is what the web's guidelines for accessible content ask of pictures.
    assert contrast(phase.color, PLATE) >= 3


def test_every_phase_is_recorded_and_each_deeplearning4j_key_has_one():
    root = Path(sparkwright.__file__).parent
    sources = [path for path in root.rglob("*.py") if path.parent.name != "timeline"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    assert set(re.findall(r"\bPhaseCode\.([A-Z_0-9]+)", text)) == {code.name for code in PhaseCode}
    assert {key for phase in PHASES for key in phase.dl4j} == set(DL4J_NAMES)


def test_unknown_codes_are_rejected():
    with pytest.raises(ConfigurationError, match=r"one of \[0, 1, .*code=99"):
        phase_of(99)


@pytest.mark.parametrize("key", DL4J_NAMES)
def test_page_maps_each_deeplearning4j_key_to_its_phases(key):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}`")]
    _, _, name, phases, _ = (cell.strip() for cell in line.split("|"))
    assert name == DL4J_NAMES[key]
    found = [text.removesuffix(" (driver)") for text in phases.split(", ")]
    assert found == [phase.label for phase in PHASES if key in phase.dl4j]
