"""What was gathered on driver and executors, before it is judged: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from sparkwright.timeline.clocks import Offset

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Memory and disk of one place, in bytes; None: not known, or no limit."""

    total: int | None = None  # of the machine
    limit: int | None = None  # of the container: the least of all control groups above the process
    heap: int | None = None  # the most that the Java process may take for its heap
    address_space: int | None = None  # the most that a Python process may map (RLIMIT_AS)
    shared: int | None = None  # size of /dev/shm
    shared_writable: bool = False
    scratch: int | None = None  # free where Spark keeps temporary files, and workers their data
    scratch_folder: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Logind:
    """Whether systemd kills a user's processes after logout (None: not known), or they linger."""

    user: str = ""
    kills: bool | None = None
    lingers: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One process that was looked at: the driver's, or a Python worker of one executor."""

    label: str  # "driver", or "executor 2 (worker-b)"
    host: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    cores: int | None = None
    open_files: int | None = None  # the limit; None: there is none
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    preloads_missing: tuple[str, ...] = ()  # files that LD_PRELOAD names and that are not there
    gpus: tuple[str, ...] = ()  # as nvidia-smi lists them
    gpu_problem: str = ""  # the output of nvidia-smi when it failed
    gpu_addresses: tuple[str, ...] = ()  # those that Spark gave to the task
    memory: Memory = field(default_factory=Memory)
    logind: Logind | None = None  # None where there is no systemd
    # How far its clock is ahead; None on the driver, and where it could not be measured.
    clock: Offset | None = None
    # Why something failed; "" if it did not; None: it was not tried.
    driver_problem: str | None = None  # to reach the driver's port
    port_problem: str | None = None  # to open a port
    peers: Mapping[str, str] = field(default_factory=dict[str, str])  # to reach another executor
    files: Mapping[str, str] = field(default_factory=dict[str, str])  # to read and write a URL

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """From JSON's dictionaries and lists."""
        given: dict[str, Any] = dict(found)
        given["memory"] = Memory(**given.get("memory", {}))
        if given.get("logind") is not None:
            given["logind"] = Logind(**given["logind"])
        for name in ("preloads_missing", "gpus", "gpu_addresses"):
            given[name] = tuple(given.get(name, ()))
        return cls(**given)


@dataclass(frozen=True, kw_only=True, slots=True)
class CachedData:
    """An RDD or table that Spark keeps."""

    name: str
    level: str  # the storage level, in Spark's words
    partitions: int
    cached: int
    uses_disk: bool
    uses_off_heap: bool = False


@dataclass(frozen=True, kw_only=True, slots=True)
class SparkFacts:
    """Facts about the Spark session."""

    master: str
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    tasks: int = 1  # of the doctor's job: as many as Spark can run at once
    came: int | None = None  # those that ran at the same time; None: not known
    executors: int | None = None
    gpus: int = 0  # of each executor that trains
    gives_gpus: bool = True  # whether the doctor's tasks ask for GPUs as those that train do
    cached: tuple[CachedData, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class Findings:
    """All that was gathered."""

    driver: Place
    executors: tuple[Place, ...] = ()
    spark: SparkFacts | None = None
    spark_problem: str = ""  # why there is no session, where one was asked for
    job_problem: str = ""  # why the job that looks at the executors failed
    port_problem: str | None = None  # why the driver could not open a port; None: not tried

    @property
    def places(self) -> tuple[Place, ...]:
        """The driver and all executors."""
        return (self.driver, *self.executors)
