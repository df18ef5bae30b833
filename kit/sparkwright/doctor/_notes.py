"""Notes on findings, and the combination of equal notes to one check. Pure."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

from ._diagnosis import Check, Status
from ._findings import Findings, Place

_MOST_NAMED = 4


class Note(NamedTuple):
    """A note on one place."""

    status: Status
    found: str
    remedy: str = ""

    def check(self, name: str, where: str) -> Check:
        """Return the note as a row of a diagnosis."""
        return Check(
            name=name, where=where, status=self.status, found=self.found, remedy=self.remedy
        )


ok = partial(Note, "ok")
warning = partial(Note, "warning")  # training works, but not optimally
fault = partial(Note, "problem")  # training fails, or fails as soon as a worker is lost
unchecked = partial(Note, "not checked")


class Rule(NamedTuple):
    """A check: `judge` returns note(s) or None, for a place and all findings, or for settings."""

    name: str
    judge: Callable[..., Any]
    of: Literal["places", "executors", "Spark"] = "places"

    def __call__(self, findings: Findings) -> Iterator[Check]:
        """Yield one check for each distinct note."""
        if self.of == "Spark":
            if findings.spark is not None:
                yield self.judge(findings.spark).check(self.name, "Spark")
            return
        places = findings.places if self.of == "places" else findings.executors
        notes: list[tuple[Place, Note]] = []
        for place in places:
            found = self.judge(place, findings) or ()
            notes += [(place, note) for note in ([found] if isinstance(found, Note) else found)]
        yield from grouped(self.name, notes, findings)


def grouped(name: str, notes: Iterable[tuple[Place, Note]], findings: Findings) -> list[Check]:
    """Return one check for each distinct note, in order."""
    places: dict[Note, list[Place]] = {}
    for place, note in notes:
        places.setdefault(note, []).append(place)
    return [note.check(name, where_of(found, findings)) for note, found in places.items()]


def where_of(places: Sequence[Place], findings: Findings) -> str:
    """Describe the places; list their names if there are few."""
    executors = [place.label for place in places if place is not findings.driver]
    parts = [findings.driver.label] if len(executors) < len(places) else []
    if len(executors) > 1 and len(executors) == len(findings.executors):
        parts.append(f"all {len(executors)} executors")
    else:
        parts += executors[:_MOST_NAMED]
        if len(executors) > _MOST_NAMED:
            parts.append(f"and {len(executors) - _MOST_NAMED} more")
    return ", ".join(parts)
