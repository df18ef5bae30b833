"""Looks at the driver, and by one Spark job at the executors."""

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparkwright import errors
from sparkwright.errors import ConfigurationError, NetworkError, RunInterrupted
from sparkwright.masters import MeshConfig
from sparkwright.mesh import _addresses, _auth, _connection
from sparkwright.spark._addresses import advertised_address, bind_address
from sparkwright.spark._jobs import SparkJob
from sparkwright.spark._slots import task_slots
from sparkwright.timeline._clocks import OffsetEstimator

from . import _lines, _machine, _probe
from ._findings import CachedData, Clock, Findings, Place, SparkFacts
from ._meeting import Meeting
from ._probe import Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET_S = 8.0
_CONNECT_S = 5.0
_FILES_S = 30.0
_CANCEL_S = 10.0
# Of Azure's addresses that part is no user but a container.
_IN_ADDRESS = re.compile(r"(?<!abfs://)(?<!abfss://)(?<=://)[^/\s@]+(?=@)")
_QUERY = re.compile(r"\?\S*")
_LINES_OF_PROBLEM = 3
# What tasks need is sent whole: executors may have no kit, or another one.
_SENT_WHOLE = (errors, _addresses, _auth, _connection, _lines, _machine, _probe)


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
    if spark is None or unusable:
        with _folders(told) as (_, problems):
            return Findings(driver=_driver(None, problems), spark_problem=unusable)
    mesh = mesh or MeshConfig()
    with _folders(told) as (folders, problems):
        port_problem, meeting, secret, tasks = "", None, secrets.token_bytes(32), _tasks(spark)
        try:
            meeting = Meeting(
                secret=secret,
                host=bind_address(spark, mesh),
                ports=_ports(mesh),
                tasks=tasks,
                quiet_s=min(_QUIET_S, timeout_s / 4),
                timeout_s=timeout_s,
            )
        except (NetworkError, ConfigurationError, OSError) as error:
            port_problem = str(error)
        try:
            driver_at = None
            if meeting is not None:
                driver_at = (advertised_address(spark, mesh), meeting.address[1])
            orders = Orders(
                driver=driver_at,
                secret=secret,
                ports=_ports(mesh),
                network_mask=mesh.network_mask,
                connect_s=min(_CONNECT_S, timeout_s / 4),
                wait_s=timeout_s,
                folders=folders,
                files_s=min(_FILES_S, timeout_s / 2),
                clock=executor_clock,
            )
            answers, job_problem = _ask_executors(spark, orders, tasks, timeout_s, meeting)
            came = len(meeting.came) if meeting is not None else tasks
        finally:
            if meeting is not None:
                meeting.close()
        places = tuple(map(_executor, answers))
        _read_back(folders, answers, problems)
        return Findings(
            driver=_driver(spark, problems),
            executors=places,
            spark=SparkFacts(
                master=str(spark.sparkContext.master),
                settings=_settings(spark),
                tasks=tasks,
                came=came,
                executors=len(places) or None,
                cached=_cached(spark),
            ),
            job_problem=job_problem,
            port_problem=port_problem,
            waited_s=timeout_s,
        )


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


def _ports(mesh: MeshConfig) -> Sequence[int]:
    return mesh.ports_from(os.environ)


def _tasks(spark: "SparkSession") -> int:
    """As many as can run at once."""
    return max(1, task_slots(spark) or spark.sparkContext.defaultParallelism)


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
    return Place.from_dict({**_machine.examine(java=java), "label": "driver", "files": files})


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


def _ask_executors(
    spark: "SparkSession", orders: Orders, tasks: int, timeout_s: float, meeting: Meeting | None
) -> tuple[list[dict[str, Any]], str]:
    """Answers with a place, one an executor, by label; and why the job failed, if it did."""
    over = threading.Event()
    task = _sent_whole(orders)

    def action() -> list[dict[str, Any]]:
        try:
            numbers = spark.sparkContext.parallelize(range(tasks), tasks)
            return numbers.mapPartitionsWithIndex(task).collect()
        finally:
            over.set()

    job = SparkJob(spark, action, description="sparkwright doctor")
    answers: list[dict[str, Any]] = []
    problem = ""
    try:
        if over.wait(timeout_s):
            answers = job.wait()
        else:
            canceller = threading.Thread(target=job.cancel, daemon=True)
            canceller.start()
            over.wait(_CANCEL_S)
            seen = len(meeting.came) if meeting is not None else 0
            problem = (
                f"{'no task' if not seen else f'only {seen} tasks'} of {tasks} "
                f"{'began' if not seen else 'came'} within {timeout_s:g} s"
            )
    except KeyboardInterrupt:
        threading.Thread(target=job.cancel, daemon=True).start()
        raise RunInterrupted("interrupted: sparkwright doctor") from None
    except Exception as error:
        problem = _in_short(error)
    found = {} if meeting is None else dict(meeting.answers)
    found.update({answer["executor"]: answer for answer in answers if "place" in answer})
    return sorted(found.values(), key=lambda answer: _by_number(answer["label"])), problem


def _by_number(label: str) -> list[tuple[int, str]]:
    return [(int(part or 0), text) for part, text in re.findall(r"(\d+)|(\D+)", label)]


def _in_short(error: BaseException) -> str:
    """The line that says it, of what may be a page of Java."""
    from sparkwright.spark._errors import translated

    text = str(translated(error)).strip()
    wanted = ("PYTHON_VERSION_MISMATCH", "Cannot run program", "No module named")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if any(word in line for word in wanted)]
    return " ".join((telling or lines)[:_LINES_OF_PROBLEM])[:600] or type(error).__name__


def _sent_whole(orders: Orders) -> Callable[[int, Iterable[Any]], list[dict[str, Any]]]:
    """A function for `mapPartitionsWithIndex` that needs no kit where it runs."""
    from pyspark import cloudpickle

    package: Any = cloudpickle
    with contextlib.ExitStack() as stack:
        for module in _SENT_WHOLE:
            package.register_pickle_by_value(module)
            stack.callback(package.unregister_pickle_by_value, module)
        pickled: bytes = package.dumps((_probe.look, orders))

    def task(index: int, _: Iterable[Any]) -> list[dict[str, Any]]:
        import pickle

        look, ordered = pickle.loads(pickled)
        return [look(ordered, index)]

    # As if it had been written in the notebook: else Spark would send no more than its name.
    task.__module__ = "__main__"
    return task


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
def _folders(told: dict[str, str]) -> Generator[tuple[dict[str, str], dict[str, str]]]:
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

    folders: dict[str, str] = {}
    made: set[str] = set()
    problems: dict[str, str] = {}
    content = secrets.token_bytes(64)
    for shown, url in told.items():
        folder = join(url, f".sparkwright-doctor-{secrets.token_hex(6)}")

        def write(folder: str = folder, url: str = url) -> None:
            if not is_folder(url):
                made.add(folder)
            write_bytes(join(folder, "driver"), content)

        problems[shown] = told_url(_within(_FILES_S, write))
        if not problems[shown]:
            folders[folder] = shown
    try:
        yield folders, problems
    finally:
        for folder in folders:

            def clear(folder: str = folder, url: str = told[folders[folder]]) -> None:
                remove_tree(folder)
                if folder in made:
                    remove_empty_folder(url)

            _within(_FILES_S, clear)


def _read_back(
    folders: dict[str, str], answers: list[dict[str, Any]], problems: dict[str, str]
) -> None:
    """Whether the driver sees what executors have written."""
    from sparkwright.storage._files import join, read_bytes

    for folder, shown in folders.items():
        for answer in answers:
            if answer["place"].get("files", {}).get(shown) != "":
                continue
            name = _probe.file_of(answer["executor"])

            def read(folder: str = folder, name: str = name) -> None:
                read_bytes(join(folder, name))

            if problem := _within(_FILES_S, read):
                problems[shown] = (
                    f"the file that {answer['label']} wrote is not here: {told_url(problem)}"
                )
                break


def _within(seconds: float, action: Callable[[], None]) -> str:
    """Why `action` failed, or did not end in time; "" if it did its work."""
    found = [f"no answer within {seconds:g} s"]

    def attempt() -> None:
        try:
            action()
            found[0] = ""
        except Exception as error:
            # Whatever a store's client raises: it is told.
            found[0] = f"{type(error).__name__}: {error}"

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0]
