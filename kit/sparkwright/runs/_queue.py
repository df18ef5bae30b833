"""Which earlier runs hold the task slots that a run waits for."""

import contextlib
import threading
from collections.abc import Generator, Iterable
from dataclasses import dataclass

from .record import RunRecord


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The task slots that a run takes.

    Attributes:
        place: what has the slots, such as a Spark application's id; runs in one place share them.
        workers: how many slots the run needs to begin.
        slots: how many the place has; None: that can change, so nothing is known.
    """

    place: str
    workers: int
    slots: int | None


@dataclass(eq=False, kw_only=True, slots=True)
class _Entry:
    name: str
    claim: Claim
    record: RunRecord

    @property
    def held(self) -> int:
        """Slots that the run has, or has first claim on; workers that have joined among them."""
        present = sum(worker.state != "waiting" for worker in self.record.status().workers)
        return max(self.claim.workers, present)


def blocking(claim: Claim, earlier: Iterable[tuple[str, int]]) -> tuple[str, ...]:
    """Return the names of the earlier runs that leave too few slots; none if enough are free.

    Args:
        claim: of the run that waits.
        earlier: name and slots of each earlier run in the same place.

    Example:
        >>> blocking(Claim(place="app-1", workers=2, slots=4), [("brisk-heron", 3)])
        ('brisk-heron',)
    """
    found = tuple(earlier)
    if claim.slots is None or claim.workers + sum(held for _, held in found) <= claim.slots:
        return ()
    return tuple(name for name, _ in found)


class RunQueue:
    """The runs of this process that have not ended, in the order in which they began."""

    def __init__(self) -> None:
        """Begin with none."""
        self._entries: list[_Entry] = []
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def turn(self, name: str, claim: Claim | None, record: RunRecord) -> Generator[None]:
        """Keep `record` informed of the runs that it waits for, and others of this one."""
        if claim is None:
            yield
            return
        entry = _Entry(name=name, claim=claim, record=record)
        with self._lock:
            self._entries.append(entry)
            self._inform([entry])
        try:
            yield
        finally:
            with self._lock:
                self._entries.remove(entry)
                self._inform([e for e in self._entries if e.claim.place == claim.place])

    def _inform(self, entries: Iterable[_Entry]) -> None:
        for entry in entries:
            before = self._entries[: self._entries.index(entry)]
            there = [(e.name, e.held) for e in before if e.claim.place == entry.claim.place]
            entry.record.waits_behind(blocking(entry.claim, there))


QUEUE = RunQueue()
