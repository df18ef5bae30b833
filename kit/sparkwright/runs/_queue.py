"""The queue of runs for the task slots of their Spark application."""

import contextlib
import threading
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import NamedTuple

from .record import RunRecord

_LOOK_AGAIN_S = 0.2


class Claim(NamedTuple):
    """The task slots that a run needs."""

    place: str  # id of the Spark application; its runs share its slots
    workers: int  # slots that the run needs to start
    slots: int | None  # of the application; None: unknown, because it can change


@dataclass(eq=False, frozen=True, slots=True)
class Place:
    """A run in the queue."""

    name: str
    claim: Claim | None
    record: RunRecord


class RunQueue:
    """The active runs of this process, in the order of their start."""

    # A run starts when it can have all its slots, beside those of all earlier runs. It keeps them
    # to its end: the slot of a lost worker is for that worker's replacement.

    def __init__(self) -> None:
        self._places: list[Place] = []
        self._changed = threading.Condition()

    def enter(self, place: Place) -> None:
        """Take the next place; a run without a claim needs none."""
        if place.claim is not None:
            with self._changed:
                self._places.append(place)
                self._inform()

    @contextlib.contextmanager
    def turn(self, place: Place, *, is_stopped: Callable[[], bool]) -> Generator[None]:
        """Wait until the run may start, or is stopped; it leaves the queue after the block."""
        try:
            with self._changed:
                while place.record.behind and not is_stopped():
                    # Workers that joined an earlier run may leave it at any time.
                    self._changed.wait(_LOOK_AGAIN_S)
                    self._inform()
            yield
        finally:
            with self._changed:
                if place.claim is not None:
                    self._places.remove(place)
                self._inform()

    def _inform(self) -> None:
        """Update all records with the runs that they wait for."""
        for number, place in enumerate(self._places):
            assert place.claim is not None
            there, wanted, slots = place.claim
            earlier = [p for p in self._places[:number] if p.claim and p.claim.place == there]
            is_full = slots is not None and wanted + sum(map(_held, earlier)) > slots
            place.record.set_waiting_for(tuple(each.name for each in earlier) if is_full else ())
        self._changed.notify_all()


def _held(place: Place) -> int:
    """Return the slots that a run has or waits for, including those of joined workers."""
    present = sum(worker.state != "waiting" for worker in place.record.status().workers)
    return max(0 if place.claim is None else place.claim.workers, present)


QUEUE = RunQueue()
