"""Findings on driver and executors before evaluation, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkwright.timeline.clocks import Offset

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """One examined process: the driver, or a Python worker of one executor."""

    label: str  # "driver", or "executor 2 (worker-b)"
    host: str = ""
    versions: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    backend: str = ""  # KERAS_BACKEND
    open_files: int | None = None  # the limit; None: unlimited
    open_files_used: int = 0
    # Bytes; None: unknown or unlimited.
    address_space: int | None = None  # maximum virtual memory of a Python process (RLIMIT_AS)
    shared: int | None = None  # size of /dev/shm
    shared_writable: bool = False
    scratch: int | None = None  # free space for temporary files of Spark and data of workers
    scratch_folder: str = ""
    gpus: Sequence[str] = ()  # lines of nvidia-smi
    gpu_problem: str = ""  # the output of nvidia-smi when it failed
    gpu_addresses: Sequence[str] = ()  # assigned to the task by Spark
    # Its clock minus the driver's; None on the driver, or if it could not be measured.
    clock: Offset | None = None
    # Reasons of failures; "" on success; None: not tried.
    driver_problem: str | None = None  # connecting to the driver's port
    port_problem: str | None = None  # opening a port
    peers: Mapping[str, str] = field(default_factory=dict[str, str])  # connecting to an executor
    files: Mapping[str, str] = field(default_factory=dict[str, str])  # reading and writing a URL


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
