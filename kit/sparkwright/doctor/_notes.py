"""Notes on what was gathered, and one check for equal notes. Pure."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from ._diagnosis import Check, Status
from ._findings import GIB, MIB, Findings, Place

_MOST_NAMED = 4
_TIME = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


class Note(NamedTuple):
    """A remark on one place."""

    status: Status
    found: str
    remedy: str = ""

    def check(self, name: str, where: str) -> Check:
        """Return the remark as a row of a diagnosis."""
        return Check(
            name=name, where=where, status=self.status, found=self.found, remedy=self.remedy
        )


ok = partial(Note, "ok")
warning = partial(Note, "warning")  # training works, but worse than it could
fault = partial(Note, "problem")  # it fails, or does so as soon as a worker is lost
unchecked = partial(Note, "not checked")


class Rule(NamedTuple):
    """A check of the places, of the executors, or of the session's settings.

    `judge` gives the notes on a place and all findings, or the note on the settings.
    """

    name: str
    judge: Callable[..., Any]
    of: Literal["places", "executors", "Spark"] = "places"

    def __call__(self, findings: Findings) -> Iterator[Check]:
        """One check for each different note."""
        if self.of == "Spark":
            if findings.spark is not None:
                yield self.judge(findings.spark).check(self.name, "Spark")
            return
        places = findings.places if self.of == "places" else findings.executors
        notes = ((place, note) for place in places for note in self.judge(place, findings))
        yield from grouped(self.name, notes, findings)


def grouped(name: str, notes: Iterable[tuple[Place, Note]], findings: Findings) -> list[Check]:
    """Return a check for each different note, in their order."""
    places: dict[Note, list[Place]] = {}
    for place, note in notes:
        places.setdefault(note, []).append(place)
    return [note.check(name, where_of(found, findings)) for note, found in places.items()]


def where_of(places: Sequence[Place], findings: Findings) -> str:
    """Return the places in words, all of them named if there are few."""
    executors = [place.label for place in places if place is not findings.driver]
    parts = [findings.driver.label] if len(executors) < len(places) else []
    if len(executors) > 1 and len(executors) == len(findings.executors):
        parts.append(f"all {len(executors)} executors")
    else:
        parts += executors[:_MOST_NAMED]
        if len(executors) > _MOST_NAMED:
            parts.append(f"and {len(executors) - _MOST_NAMED} more")
    return ", ".join(parts)


def size_text(size_bytes: float) -> str:
    """Format a size, such as "1.5 GiB"."""
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    return f"{size_bytes / MIB:.0f} MiB"


def seconds_of(text: str, *, unit: str = "s") -> float | None:
    """Parse a duration such as "30min" to seconds; None if it is invalid.

    Example:
        >>> seconds_of("300ms"), seconds_of("30min"), seconds_of("3", unit="ms")
        (0.3, 1800.0, 0.003)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) * _SECONDS[(match[2] or unit).lower()]
