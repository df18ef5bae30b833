"""What was gathered on driver and executors, before it is judged.

All of it is plain values, so that each problem can be made up in a test. `Place.from_dict` takes
what comes over the network: what is missing there is None or empty here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

MIB, GIB = 1 << 20, 1 << 30


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
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    preloads_missing: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    gpu_problem: str = ""
    gpu_addresses: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
    logind: Logind | None = None
    clock: Clock | None = None
    driver_problem: str | None = None
    port_problem: str | None = None
    peers: Mapping[str, str] = field(default_factory=dict[str, str])
    files: Mapping[str, str] = field(default_factory=dict[str, str])

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
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
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
