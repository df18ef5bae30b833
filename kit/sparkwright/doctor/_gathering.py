"""Looks at the driver and at Spark, and has the executors looked at."""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError, NetworkError
from sparkwright.masters import MeshConfig
from sparkwright.spark._addresses import advertised_address, bind_address
from sparkwright.spark._engine_archive import engine_finder, own_engine
from sparkwright.spark._gpus import TASK_AMOUNT
from sparkwright.spark._slots import gpus_of_executor, is_dynamic, tasks_to_ask
from sparkwright.timeline.clocks import OffsetEstimator

from . import _machine, _probe
from ._findings import CachedData, Clock, Findings, Place, SparkFacts
from ._meeting import Meeting
from ._probe import Orders, all_within
from ._visit import visit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET_S = 8.0
_CONNECT_S = 5.0
_FILES_S = 30.0
# Of Azure's addresses that part is no user but a container.
_IN_ADDRESS = re.compile(r"(?<!abfs://)(?<!abfss://)(?<=://)[^/\s@]+(?=@)")
_QUERY = re.compile(r"\?\S*")


def gather(
    spark: "SparkSession | None",
    *,
    urls: Sequence[str] = (),
    mesh: MeshConfig | None = None,
    timeout_s: float = 60.0,
    executor_clock: Callable[[], float] = time.time,
) -> Findings:
    """Everything; see `doctor`.

    Args:
        spark: None: this process and machine alone.
        urls: folders to write to.
        mesh: ports and network of a run.
        timeout_s: the longest that the job may take.
        executor_clock: what time it is on executors; tests set it wrong.
    """
    told = {told_url(url): url for url in urls}
    unusable = "" if spark is None else _unusable(spark)
    files_s = min(_FILES_S, timeout_s / 2)
    with _folders(told, files_s) as (folders, problems):
        if spark is None or unusable:
            return Findings(driver=_driver(None, problems), spark_problem=unusable)
        secret, tasks = secrets.token_bytes(32), tasks_to_ask(spark)
        mesh = mesh or MeshConfig()
        opened = _open(spark, mesh, secret=secret, tasks=tasks, timeout_s=timeout_s)
        meeting = opened if isinstance(opened, Meeting) else None
        orders = Orders(
            driver=None if meeting is None else _reached_at(spark, mesh, meeting),
            secret=secret,
            ports=(0,) if meeting is None else _executor_ports(mesh),
            network_mask=mesh.network_mask,
            connect_s=min(_CONNECT_S, timeout_s / 4),
            wait_s=timeout_s,
            folders=folders,
            files_s=files_s,
            clock=executor_clock,
            find_kit=engine_finder(),
        )
        settings = _settings(spark)
        # Executors that come and go have GPUs only while something trains.
        gives_gpus = TASK_AMOUNT in settings or not is_dynamic(settings)
        try:
            visited = visit(
                spark,
                orders,
                tasks=tasks,
                timeout_s=timeout_s,
                meeting=meeting,
                gives_gpus=gives_gpus,
            )
        finally:
            if meeting is not None:
                meeting.close()
        _read_back(folders, visited.answers, problems, files_s)
        executors = tuple(map(_executor, visited.answers))
        return Findings(
            driver=_driver(spark, problems),
            executors=executors,
            spark=SparkFacts(
                master=str(spark.sparkContext.master),
                settings=settings,
                tasks=tasks,
                gpus=gpus_of_executor(settings),
                gives_gpus=gives_gpus,
                came=_came(meeting, executors),
                executors=len(executors) or None,
                cached=_cached(spark),
            ),
            job_problem=visited.problem,
            port_problem=opened if isinstance(opened, str) else "",
        )


def _open(
    spark: "SparkSession", mesh: MeshConfig, *, secret: bytes, tasks: int, timeout_s: float
) -> Meeting | str:
    """The driver's port, as a run would open it; or why it cannot be opened."""
    try:
        return Meeting(
            secret=secret,
            host=bind_address(spark, mesh),
            ports=mesh.ports_from(os.environ),
            tasks=tasks,
            quiet_s=min(_QUIET_S, timeout_s / 4),
            timeout_s=timeout_s,
        )
    except (NetworkError, ConfigurationError, OSError) as error:
        return str(error)


def _executor_ports(mesh: MeshConfig) -> Sequence[int] | str:
    if isinstance(mesh.ports, str) and mesh.ports.startswith("env:"):
        return mesh.ports.removeprefix("env:")
    return mesh.ports_from(os.environ)


def _reached_at(spark: "SparkSession", mesh: MeshConfig, meeting: Meeting) -> tuple[str, int]:
    return advertised_address(spark, mesh), meeting.address[1]


def _came(meeting: Meeting | None, executors: Sequence[Place]) -> int | None:
    """Tasks that were there at the same time; None where some could not say so."""
    if meeting is None or any(place.driver_problem for place in executors):
        return None
    return len(meeting.came)


def told_url(url: str) -> str:
    """A URL, or a text with some, without what may be secret in them.

    Example:
        >>> told_url("s3://ann:abc@bucket/a?sig=x")
        's3://(hidden)@bucket/a'
    """
    return _QUERY.sub("", _IN_ADDRESS.sub("(hidden)", url))


def _unusable(spark: "SparkSession") -> str:
    """Why nothing can be asked of this session; "" if it can."""
    context: Any = getattr(spark, "sparkContext", None)
    if context is None:
        return (
            "this session is of Spark Connect, which has no RDDs. Start Spark without `remote`, "
            "as `sparkwright.start_spark` does"
        )
    return "" if context._jsc is not None else "this session has been stopped"


def _driver(spark: "SparkSession | None", files: dict[str, str]) -> Place:
    java: dict[str, Any] = {}
    if spark is not None:
        context: Any = spark.sparkContext
        machine = context._jvm
        java = {
            "version": str(machine.System.getProperty("java.version")),
            "heap": int(machine.Runtime.getRuntime().maxMemory()),
        }
    else:
        java = {"version": _machine.java_on_path()}
    found = _machine.examine(find_kit=lambda _: own_engine(), java=java)
    return Place.from_dict({**found, "label": "driver", "files": files})


def _executor(answer: dict[str, Any]) -> Place:
    place = dict(answer["place"])
    place["files"] = {url: told_url(text) for url, text in place.get("files", {}).items()}
    clock = clock_of(answer.get("samples", ()))
    return replace(Place.from_dict({**place, "label": answer["label"]}), clock=clock)


def clock_of(samples: Iterable[Sequence[float]]) -> Clock | None:
    """How far the clock of who asked is ahead of that of who answered; None: not known.

    Args:
        samples: (asked, came, left, answered) in seconds: the first and last by the asker's clock.
    """
    estimator, now_s = OffsetEstimator(), 0.0
    for asked_s, came_s, left_s, answered_s in samples:
        estimator = estimator.with_exchange(asked_s, came_s, left_s, answered_s)
        now_s = answered_s
    offset = estimator.estimate(now_s)
    if offset is None:
        return None
    return Clock(offset_s=-offset.offset_s, uncertainty_s=offset.uncertainty_s)


def _settings(spark: "SparkSession") -> dict[str, str]:
    """Those that were set, and of SQL's the one that matters, as it is now."""
    found = dict(spark.sparkContext.getConf().getAll())
    arrow = "spark.sql.execution.arrow.pyspark.enabled"
    with contextlib.suppress(Exception):
        found[arrow] = str(spark.conf.get(arrow))
    return found


def _cached(spark: "SparkSession") -> tuple[CachedData, ...]:
    context: Any = spark.sparkContext
    found: list[CachedData] = []
    for info in context._jsc.sc().getRDDStorageInfo():
        level = info.storageLevel()
        found.append(
            CachedData(
                name=str(info.name()).split("\n")[0][:60] or f"RDD {info.id()}",
                level=str(level.description()),
                partitions=int(info.numPartitions()),
                cached=int(info.numCachedPartitions()),
                uses_disk=bool(level.useDisk()),
                uses_off_heap=bool(level.useOffHeap()),
            )
        )
    return tuple(found)


@contextlib.contextmanager
def _folders(
    told: dict[str, str], seconds: float
) -> Generator[tuple[dict[str, str], dict[str, str]]]:
    """Folders of our own at the URLs, each with the driver's file; removed at the end.

    Yields:
        (folder -> URL as told, of those that could be written; URL -> what is wrong, "" if nothing)
    """
    from sparkwright.storage._files import (
        is_folder,
        join,
        remove_empty_folder,
        remove_tree,
        write_bytes,
    )

    made: set[str] = set()
    content = secrets.token_bytes(64)

    def write(folder: str, url: str) -> str:
        if not is_folder(url):
            made.add(folder)
        write_bytes(join(folder, "driver"), content)
        return ""

    def clear(folder: str, url: str) -> str:
        remove_tree(folder)
        if folder in made:
            remove_empty_folder(url)
        return ""

    mine = {
        shown: join(url, f".sparkwright-doctor-{secrets.token_hex(6)}")
        for shown, url in told.items()
    }
    writing = {shown: partial(write, folder, told[shown]) for shown, folder in mine.items()}
    problems = {shown: told_url(text) for shown, text in _all_within(writing, seconds).items()}
    folders = {folder: shown for shown, folder in mine.items() if not problems[shown]}
    try:
        yield folders, problems
    finally:
        clearing = {shown: partial(clear, folder, told[shown]) for folder, shown in folders.items()}
        _all_within(clearing, seconds)


def _read_back(
    folders: dict[str, str],
    answers: list[dict[str, Any]],
    problems: dict[str, str],
    seconds: float,
) -> None:
    """Whether the driver sees what executors have written."""
    from sparkwright.storage._files import join, read_bytes

    def read(file: str) -> str:
        read_bytes(file)
        return ""

    written = {
        join(folder, _probe.file_of(answer["executor"])): (shown, answer["label"])
        for folder, shown in folders.items()
        for answer in answers
        if answer["place"].get("files", {}).get(shown) == ""
    }
    reading = {file: partial(read, file) for file in written}
    for file, problem in _all_within(reading, seconds).items():
        shown, label = written[file]
        if problem and not problems[shown]:
            problems[shown] = f"the file that {label} wrote is not here: {told_url(problem)}"


def _all_within(actions: dict[str, Callable[[], str]], seconds: float) -> dict[str, str]:
    return all_within(actions, seconds, f"no answer within {seconds:g} s")
