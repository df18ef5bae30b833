"""What may not grow without a reason: statements of each package, and work of `make test-all`.

python -m tests.ratchet statements          # fails if a package has more than ratchet.json says
python -m tests.ratchet work                # the same for the last run of all tests
python -m tests.ratchet statements --record # writes the numbers into ratchet.json

A commit that records a larger number says why.
"""

import json
import sys
from pathlib import Path

from tests.benchmarks.size import ROOT, statements

LIMITS = Path(__file__).with_name("ratchet.json")
TALLY = ROOT / "reports/tally.json"
# The same tests trace a little more if a worker is replaced early. Two runs differed by 0.2 %.
TOLERANCE = 0.02
SLACK = 3  # for small numbers: a trainer that is started again, and what it traces


def work():
    """Trainers, traces, sessions and jobs of the last test run, as "traces/spark"."""
    counts = json.loads(TALLY.read_text(encoding="utf-8"))
    return {f"{kind}/{name}": n for kind, found in counts.items() for name, n in found.items()}


def grown(found, limits, *, tolerance=0.0, slack=0):
    """A line for each number above its limit; what has no limit may not exist."""
    return [
        f"{name}: {number:,}, recorded {limits.get(name, 0):,}"
        for name, number in sorted(found.items())
        if number > limits.get(name, 0) * (1 + tolerance) + slack
    ]


def main(kind, *options):
    """Check the numbers of one kind, or record them."""
    limits = json.loads(LIMITS.read_text(encoding="utf-8"))
    found = {"statements": statements, "work": work}[kind]()
    if options == ("--record",):
        limits[kind] = found
        LIMITS.write_text(json.dumps(limits, indent=2) + "\n", encoding="utf-8")
        return
    tolerance, slack = (TOLERANCE, SLACK) if kind == "work" else (0.0, 0)
    if rows := grown(found, limits[kind], tolerance=tolerance, slack=slack):
        raise SystemExit(
            f"No number of {kind} may exceed tests/ratchet.json. Received: {'; '.join(rows)}. "
            f"Reduce it, or run `python -m tests.ratchet {kind} --record`; the commit says why."
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
