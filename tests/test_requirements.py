import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
TABLES = Path(__file__).with_name("requirements.md")


def rows():
    """Line number and cells of each row, and the number of cells in the header of its table."""
    columns = 0
    for number, line in enumerate(TABLES.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("|"):
            columns = 0
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not columns:
            columns = len(cells)
        elif set(line) != set("|- "):
            yield number, cells, columns


@cache
def names_in(file):
    return frozenset(re.findall(r"(?m)^\s*(?:async )?def (test_\w+)", file.read_text("utf-8")))


def exists(reference):
    """Whether a cell's entry, a test or a page, is there."""
    file, _, name = reference.strip("`").partition("::")
    if not (ROOT / file).is_file():
        return False
    return name in names_in(ROOT / file) if file.startswith("tests/") else file.endswith(".md")


def test_no_row_is_empty():
    found = list(rows())
    assert len(found) > 400
    assert [n for n, cells, columns in found if len(cells) != columns or not all(cells)] == []


def test_named_tests_and_pages_exist():
    named = {entry for _, cells, _ in rows() for entry in cells[-1].split(", ")} - {"none"}
    assert sorted(entry for entry in named if not exists(entry)) == []
