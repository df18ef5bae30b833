"""What was found on driver and executors, as plain values, and notes on it. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from sparkwright.timeline.clocks import Offset

from ._diagnosis import Check, Status

_MOST_NAMED = 4


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One examined process: the driver, or a Python worker of one executor."""

    label: str  # "driver", or "executor 2 (worker-b)"
    host: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    backend: str = ""  # KERAS_BACKEND
    gpus: Sequence[str] = ()  # lines of nvidia-smi
    gpu_problem: str = ""  # the output of nvidia-smi when it failed
    gpu_addresses: Sequence[str] = ()  # assigned to the task by Spark
    # Its clock minus the driver's; None on the driver, or if it could not be measured.
    clock: Offset | None = None
    # Reasons of failures; "" on success; None: not tried.
    driver_problem: str | None = None  # connecting to the driver's port
    port_problem: str | None = None  # opening a port
    peers: Mapping[str, str] = field(default_factory=dict[str, str])  # connecting to an executor


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkFacts:
    master: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    tasks: int = 1  # of the doctor's job: maximum number of concurrent tasks
    came: int | None = None  # number of tasks that ran at the same time; None: unknown
    gpus: int = 0  # of each training executor
    gives_gpus: bool = True  # whether the doctor's tasks request GPUs like training tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    driver: Place
    executors: tuple[Place, ...] = ()
    spark: SparkFacts | None = None
    spark_problem: str = ""  # reason for a missing session, if one was requested
    job_problem: str = ""  # reason for a failure of the job that examines executors
    port_problem: str | None = None  # of opening a port on the driver; None: not tried

    @property
    def places(self) -> tuple[Place, ...]:
        """The driver and all executors."""
        return (self.driver, *self.executors)


class Note(NamedTuple):
    """A note on one place."""

    status: Status
    found: str
    remedy: str = ""

    def check(self, name: str, where: str = "Spark") -> Check:
        """Return the note as a row of a diagnosis."""
        return Check(
            name=name, where=where, status=self.status, found=self.found, remedy=self.remedy
        )


ok = partial(Note, "ok")
warning = partial(Note, "warning")  # training works, but not optimally
fault = partial(Note, "problem")  # training fails, or fails as soon as a worker is lost
unchecked = partial(Note, "not checked")


def grouped(
    name: str, notes: Iterable[tuple[Place, Note | None]], findings: Findings
) -> Iterator[Check]:
    """Yield one check for each distinct note, in order."""
    places: dict[Note, list[Place]] = {}
    for place, note in notes:
        if note is not None:
            places.setdefault(note, []).append(place)
    for note, found in places.items():
        yield note.check(name, _where(found, findings))


def _where(places: Sequence[Place], findings: Findings) -> str:
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
