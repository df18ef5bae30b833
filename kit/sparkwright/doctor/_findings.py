"""What was gathered on driver and executors, before it is judged, and how notes on it are grouped.

All of it is plain values, so that each problem can be made up in a test. `Place.from_dict` takes
what comes over the network: what is missing there is None or empty here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from ._diagnosis import Check, Status

_MOST_NAMED = 4
MIB, GIB = 1 << 20, 1 << 30
_TIME = re.compile(r"\s*(\d+)\s*(us|ms|s|m|min|h|d)?\s*", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def _texts() -> dict[str, str]:
    return {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory and disk of one place, in bytes; None: not known, or no limit.

    Attributes:
        total: of the machine.
        limit: of the container, the least of all control groups above the process.
        heap: the most that the Java process may take for its heap.
        address_space: the most that a Python process there may map (RLIMIT_AS).
        shared: size of /dev/shm.
        shared_writable: whether a file can be made there.
        scratch: free where Spark keeps temporary files, and workers their data.
        scratch_folder: its path.
    """

    total: int | None = None
    limit: int | None = None
    heap: int | None = None
    address_space: int | None = None
    shared: int | None = None
    shared_writable: bool = False
    scratch: int | None = None
    scratch_folder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logind:
    """What systemd does with processes of a user who logs out.

    Attributes:
        user: whose.
        kills: whether they are killed; None: not known.
        lingers: whether this user's stay all the same.
    """

    user: str = ""
    kills: bool | None = None
    lingers: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Clock:
    """How far a place's clock is ahead of the driver's, in seconds, and how sure that is."""

    offset_s: float
    uncertainty_s: float


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One process that was looked at: the driver's, or a Python worker of one executor.

    Attributes:
        label: "driver", or "executor 2 (worker-b)".
        host: the machine's name.
        versions: of each package, "Python" and "Java"; None where there is none.
        cores: that this process may use.
        open_files: how many files and sockets it may have open; None: no limit.
        environment: those variables that matter here.
        preloads_missing: files that LD_PRELOAD names and that are not there.
        gpus: as nvidia-smi lists them.
        gpu_problem: what nvidia-smi said when it failed.
        gpu_addresses: those that Spark gave to the task.
        memory: see there.
        logind: None where there is no systemd.
        clock: None on the driver, and where it could not be measured.
        driver_problem: why the driver's port was not reached; "" if it was; None: not tried.
        port_problem: why no port could be opened; "" if one was; None: not tried.
        peers: label of another executor -> why its port was not reached, "" if it was.
        files: URL -> why it cannot be read and written here, "" if it can.
    """

    label: str
    host: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    cores: int | None = None
    open_files: int | None = None
    environment: Mapping[str, str] = field(default_factory=_texts)
    preloads_missing: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    gpu_problem: str = ""
    gpu_addresses: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    logind: Logind | None = None
    clock: Clock | None = None
    driver_problem: str | None = None
    port_problem: str | None = None
    peers: Mapping[str, str] = field(default_factory=_texts)
    files: Mapping[str, str] = field(default_factory=_texts)

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From JSON's dictionaries and lists."""
        given = dict(found)
        given["memory"] = Memory(**given.get("memory", {}))
        if given.get("logind") is not None:
            given["logind"] = Logind(**given["logind"])
        for name in ("preloads_missing", "gpus", "gpu_addresses"):
            given[name] = tuple(given.get(name, ()))
        return cls(**given)


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedData:
    """An RDD or table that Spark keeps.

    Attributes:
        name: as Spark shows it.
        level: the storage level, in Spark's words.
        partitions: how many it has.
        cached: how many of them are kept.
        uses_disk: whether what has no room in memory goes to disk.
        uses_off_heap: whether it lies outside Java's heap.
    """

    name: str
    level: str
    partitions: int
    cached: int
    uses_disk: bool
    uses_off_heap: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkFacts:
    """Facts about the Spark session.

    Attributes:
        master: its URL.
        settings: all that are not Spark's defaults.
        tasks: of the doctor's job: as many as Spark can run at once.
        came: those that ran at the same time; None: not known.
        executors: how many Spark says that there are; None: not known.
        gpus: that each executor which trains has.
        gives_gpus: whether the doctor's tasks ask for GPUs as those that train do.
        cached: what is cached.
    """

    master: str
    settings: Mapping[str, str] = field(default_factory=_texts)
    tasks: int = 1
    came: int | None = None
    executors: int | None = None
    gpus: int = 0
    gives_gpus: bool = True
    cached: tuple[CachedData, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """All that was gathered.

    Attributes:
        driver: this process.
        executors: one place each.
        spark: None without a session.
        spark_problem: why there is no session, where one was asked for.
        job_problem: why the job that looks at the executors failed.
        port_problem: why the driver could not open a port; "" if it could; None: not tried.
    """

    driver: Place
    executors: tuple[Place, ...] = ()
    spark: SparkFacts | None = None
    spark_problem: str = ""
    job_problem: str = ""
    port_problem: str | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """The driver and all executors."""
        return (self.driver, *self.executors)


@dataclass(frozen=True, slots=True)
class Note:
    """A remark on one place."""

    status: Status
    found: str
    remedy: str = ""

    def check(self, name: str, where: str) -> Check:
        """Return the remark as a row of a diagnosis."""
        return Check(
            name=name, where=where, status=self.status, found=self.found, remedy=self.remedy
        )


def grouped(name: str, notes: Iterable[tuple[Place, Note]], findings: Findings) -> list[Check]:
    """Return a check for each different note, in their order.

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
    """Format a size, such as "1.5 GiB".

    Example:
        >>> size_text(64 << 20)
        '64 MiB'
    """
    if size_bytes >= GIB:
        return f"{size_bytes / GIB:.1f} GiB"
    return f"{size_bytes / MIB:.0f} MiB"


def seconds_of(text: str, *, unit: str = "s") -> float | None:
    """Parse a duration such as "30min" to seconds; None if it is invalid.

    Args:
        text: the setting.
        unit: what a number without a unit counts; default "s".

    Example:
        >>> seconds_of("300ms"), seconds_of("30min"), seconds_of("3", unit="ms")
        (0.3, 1800.0, 0.003)
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    return int(match[1]) * _SECONDS[(match[2] or unit).lower()]
