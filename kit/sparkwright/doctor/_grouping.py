"""The same finding on many machines is one row."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ._check import Check, Status
from ._findings import Findings, Place

_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be said of one place."""

    status: Status
    found: str
    remedy: str = ""

    def check(self, name: str, where: str) -> Check:
        """The same as a row of a diagnosis."""
        return Check(
            name=name, where=where, status=self.status, found=self.found, remedy=self.remedy
        )


def grouped(name: str, notes: Iterable[tuple[Place, Note]], findings: Findings) -> list[Check]:
    """A check for each different note, in the order in which they came.

    Example:
        >>> driver, other = Place(label="driver"), Place(label="executor 0 (a)")
        >>> notes = [(driver, Note("ok", "3.11")), (other, Note("ok", "3.11"))]
        >>> grouped("Python", notes, Findings(driver=driver, executors=(other,)))[0].where
        'driver, executor 0 (a)'
    """
    places: dict[Note, list[Place]] = {}
    for place, note in notes:
        places.setdefault(note, []).append(place)
    return [note.check(name, where_of(found, findings)) for note, found in places.items()]


def where_of(places: Sequence[Place], findings: Findings) -> str:
    """The places in words, all of them named if there are few."""
    executors = [place.label for place in places if place is not findings.driver]
    parts = [findings.driver.label] if len(executors) < len(places) else []
    if len(executors) > 1 and len(executors) == len(findings.executors):
        parts.append(f"all {len(executors)} executors")
    else:
        parts += executors[:_MOST_NAMED]
        if len(executors) > _MOST_NAMED:
            parts.append(f"and {len(executors) - _MOST_NAMED} more")
    return ", ".join(parts)
