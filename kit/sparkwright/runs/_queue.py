"""The queue of runs that wait for task slots of earlier runs."""

import contextlib
import threading
from collections.abc import Generator
from typing import NamedTuple

from .record import RunRecord


class Claim(NamedTuple):
    """The task slots that a run needs.

    Attributes:
        place: id of the Spark application; its runs share its slots.
        workers: number of slots that the run needs to start.
        slots: number of slots of the application; None: unknown, because it can change.
    """

    place: str
    workers: int
    slots: int | None


class _Entry(NamedTuple):
    name: str
    claim: Claim
    record: RunRecord


class RunQueue:
    """The active runs of this process, in the order of their start."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self._lock = threading.RLock()

    @contextlib.contextmanager
    def turn(self, name: str, claim: Claim | None, record: RunRecord) -> Generator[None]:
        """Queue a run during the block; update all records with the runs that they wait for."""
        if claim is None:
            yield
            return
        entry = _Entry(name, claim, record)
        with self._lock:
            self._entries.append(entry)
            self._inform()
        try:
            yield
        finally:
            with self._lock:
                self._entries.remove(entry)
                self._inform()

    def _inform(self) -> None:
        for number, (_, (place, wanted, slots), record) in enumerate(self._entries):
            earlier = [each for each in self._entries[:number] if each.claim.place == place]
            is_full = slots is not None and wanted + sum(map(_held, earlier)) > slots
            record.set_waiting_for(tuple(each.name for each in earlier) if is_full else ())


def _held(entry: _Entry) -> int:
    """Return the slots that a run has or waits for, including those of joined workers."""
    present = sum(worker.state != "waiting" for worker in entry.record.status().workers)
    return max(entry.claim.workers, present)


QUEUE = RunQueue()
