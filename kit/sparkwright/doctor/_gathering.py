"""Examine the driver and Spark, and the executors by one Spark job."""

import os
import re
import secrets
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of, is_connect
from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.cluster.job_errors import translated
from sparkwright.cluster.jobs import run_job
from sparkwright.cluster.slots import gpus_of_executor, is_dynamic, tasks_to_reach_all
from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError
from sparkwright.masters import MeshConfig
from sparkwright.spark.gpus import TASK_AMOUNT, on_gpus
from sparkwright.spark.launcher import advertised_address, bind_address
from sparkwright.timeline.clocks import Offset, OffsetEstimator

from ._findings import Findings, Place, SparkFacts
from ._meeting import Meeting
from ._probe import Orders, examine, java_on_path, look

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_QUIET_S = 8.0
_CONNECT_S = 5.0
_LINES_OF_PROBLEM = 3
# The informative part of a Java stack trace.
_TELLING = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program [^\n]*?(?= Caused by|$)|"
    r"No module named \S+",
    re.MULTILINE,
)


def gather(
    spark: "SparkSession | None",
    *,
    mesh: MeshConfig | None = None,
    timeout_s: float = 60.0,
) -> Findings:
    """Gather all findings; see `doctor`."""
    unusable = "" if spark is None else _unusable(spark)
    if spark is None or unusable:
        return Findings(driver=_driver(None), spark_problem=unusable)
    secret, tasks = secrets.token_bytes(32), tasks_to_reach_all(spark)
    mesh = mesh or MeshConfig()
    settings = dict(context_of(spark).getConf().getAll())
    # With dynamic allocation, only training executors have GPUs.
    gives_gpus = TASK_AMOUNT in settings or not is_dynamic(settings)
    meeting, port_problem = None, ""
    driver, ports = None, (0,)
    try:
        meeting = Meeting(
            secret=secret,
            host=bind_address(spark, mesh),
            ports=mesh.ports_from(os.environ),
            tasks=tasks,
            quiet_s=min(_QUIET_S, timeout_s / 4),
            timeout_s=timeout_s,
        )
        driver = advertised_address(spark, mesh), meeting.address[1]
        ports = _executor_ports(mesh)
    except (NetworkError, ConfigurationError, OSError) as error:
        port_problem = str(error)
    orders = Orders(
        driver=driver,
        secret=secret,
        ports=ports,
        network_mask=mesh.network_mask,
        connect_s=min(_CONNECT_S, timeout_s / 4),
        wait_s=timeout_s,
    )
    try:
        answers, job_problem = _visit(
            spark, orders, tasks=tasks, meeting=meeting, gives_gpus=gives_gpus
        )
    finally:
        if meeting is not None:
            meeting.close()
    executors = tuple(map(_executor, answers))
    return Findings(
        driver=_driver(spark),
        executors=executors,
        spark=SparkFacts(
            master=str(context_of(spark).master),
            settings=settings,
            tasks=tasks,
            gpus=gpus_of_executor(settings),
            gives_gpus=gives_gpus,
            came=_concurrent_tasks(meeting, executors),
        ),
        job_problem=job_problem,
        port_problem=port_problem,
    )


def _executor_ports(mesh: MeshConfig) -> Sequence[int] | str:
    if isinstance(mesh.ports, str) and mesh.ports.startswith("env:"):
        return mesh.ports.removeprefix("env:")
    return mesh.ports_from(os.environ)


def _concurrent_tasks(meeting: Meeting | None, executors: Sequence[Place]) -> int | None:
    """Return the number of concurrent tasks; None if some could not connect."""
    if meeting is None or any(place.driver_problem for place in executors):
        return None
    return len(meeting.came)


def _visit(
    spark: "SparkSession",
    orders: Orders,
    *,
    tasks: int,
    meeting: Meeting | None,
    gives_gpus: bool,
) -> tuple[list[dict[str, Any]], str]:
    """Visit every executor with a job; return their answers, and why the job failed, or ""."""
    try:
        ship_engine(spark)
    except ConfigurationError as error:
        return [], str(error)
    context = context_of(spark)
    timeout_s = orders.wait_s
    deadline_s = time.monotonic() + timeout_s

    def action() -> list[dict[str, Any]]:
        if meeting is not None and not is_connect(spark):
            group: Any = context.getLocalProperty("spark.jobGroup.id")
            meeting.running = partial(_running, context, group)
        numbers = context.parallelize(range(tasks), tasks)
        found = numbers.mapPartitionsWithIndex(lambda task, _: [look(orders, task)])
        return (on_gpus(found) if gives_gpus else found).collect()

    def late() -> BaseException | None:
        if time.monotonic() < deadline_s:
            return None
        came = 0 if meeting is None else len(meeting.came)
        text = f"no task of {tasks} began"
        if came:
            text = f"{came} of {tasks} tasks came, and not all ended"
        return RunTimeoutError(f"{text} within {timeout_s:g} s")

    returned: list[dict[str, Any]] = []
    problem = ""
    try:
        # The doctor itself checks whether executors have the driver's engine.
        returned = run_job(
            spark, action, description="sparkwright doctor", error=late, needs_engine=False
        )
    except RunTimeoutError as error:
        problem = str(error)
    except Exception as error:
        # Any failure of the job is part of the diagnosis.
        problem = in_short(error)
    found = {} if meeting is None else dict(meeting.answers)
    found.update({answer["executor"]: answer for answer in returned if "place" in answer})
    answers = sorted(found.values(), key=lambda answer: _by_number(answer["label"]))
    return answers, problem


def _running(context: Any, group: str) -> int:
    """Return the number of started and unfinished tasks."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage)


def in_short(error: BaseException) -> str:
    """Shorten an error, possibly with a Java stack trace, to a few lines."""
    text = str(translated(error)).strip()
    if match := _TELLING.search(text):
        return match[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:_LINES_OF_PROBLEM])[:600] or type(error).__name__


def _by_number(label: str) -> list[tuple[int, str]]:
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", label)]


def _unusable(spark: "SparkSession") -> str:
    """Return the reason why this session is unusable, or ""."""
    session: Any = spark
    stopped = session.is_stopped if is_connect(spark) else session.sparkContext._jsc is None
    return "this session has been stopped" if stopped else ""


def _driver(spark: "SparkSession | None") -> Place:
    java: dict[str, Any] = {"version": java_on_path()} if spark is None else {}
    if spark is not None and not is_connect(spark):
        machine: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        java = {"version": str(machine.System.getProperty("java.version"))}
    return Place(**examine(java), label="driver")


def _executor(answer: dict[str, Any]) -> Place:
    clock = clock_of(answer.get("samples", ()))
    return Place(**answer["place"], label=answer["label"], clock=clock)


def clock_of(samples: Iterable[Sequence[float]]) -> Offset | None:
    """Return the offset of the client's clock from the server's; None if unknown."""
    estimator, now_s = OffsetEstimator(), 0.0
    for asked_s, came_s, left_s, answered_s in samples:
        estimator = estimator.with_exchange(asked_s, came_s, left_s, answered_s)
        now_s = answered_s
    offset = estimator.estimate(now_s)
    if offset is None:
        return None
    return offset._replace(offset_s=-offset.offset_s)
