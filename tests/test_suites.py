import re
from pathlib import Path

from tests.cases import cases

ROOT = Path(__file__).parents[1]
TARGETS = {"chaos": "CHAOS_TESTS", "cluster": "CLUSTER_TESTS", "stores": "STORE_TESTS"}


@cases("mark", *TARGETS)
def test_target_lists_every_file_with_tests_of_its_mark(mark):
    line = re.search(rf"(?m)^{TARGETS[mark]} = (.*)$", (ROOT / "Makefile").read_text())
    named = [ROOT / path for path in line[1].split()]
    marked = [p for p in ROOT.glob("tests/**/test_*.py") if f".mark.{mark}" in p.read_text()]
    left_out = [p for p in marked if not any(p.is_relative_to(each) for each in named)]
    assert marked
    assert left_out == []
