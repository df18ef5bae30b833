"""The code grows only in commits that say why."""

import json

from tests.benchmarks import size


def test_no_package_has_more_statements_than_recorded() -> None:
    recorded = json.loads(size.RATCHET.read_text(encoding="utf-8"))
    grown = {
        name: (recorded.get(name, 0), count)
        for name, count in size.statements().items()
        if count > recorded.get(name, 0)
    }
    assert grown == {}, (
        "a package may not have more statements than tests/ratchet.json says (recorded, found). "
        "Remove some, or run `python -m tests.benchmarks.size --record` and say why in the commit."
    )
