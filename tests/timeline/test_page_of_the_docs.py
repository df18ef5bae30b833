from pathlib import Path

import pytest

from sparkwright.timeline import PHASES
from sparkwright.timeline.phases import DL4J_NAMES

PAGE = (Path(__file__).parents[2] / "docs" / "timeline.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("key", DL4J_NAMES)
def test_the_page_maps_each_of_deeplearning4js_keys_to_its_phases(key):
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{key}`")]
    _, _, name, phases, _ = (cell.strip() for cell in line.split("|"))
    assert name == DL4J_NAMES[key]
    found = [text.removesuffix(" (driver)") for text in phases.split(", ")]
    assert found == [phase.label for phase in PHASES if key in phase.dl4j]
