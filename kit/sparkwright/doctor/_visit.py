"""One Spark job that visits every executor, and needs no kit there."""

import contextlib
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.errors import ConfigurationError, RunTimeoutError
from sparkwright.spark._errors import translated
from sparkwright.spark._gpus import on_gpus
from sparkwright.spark._jobs import run_job
from sparkwright.spark._shipping import ship_engine

from . import _machine, _probe
from ._meeting import Meeting
from ._probe import Orders

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LINES_OF_PROBLEM = 3
# What examines a machine is sent whole: executors may have no kit, or another one.
_SENT_WHOLE = (_machine, _probe)
# What says it in a page of Java.
_TELLING = re.compile(
    r"\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program [^\n]*?(?= Caused by|$)|"
    r"No module named \S+",
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class Visit:
    """The result of the job.

    Attributes:
        answers: of one task an executor, those with a `place`; by label.
        problem: why the job failed; "" if it did not.
    """

    answers: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    problem: str = ""


def visit(
    spark: "SparkSession",
    orders: Orders,
    *,
    tasks: int,
    timeout_s: float,
    meeting: Meeting | None,
    gives_gpus: bool,
) -> Visit:
    """Send the kit as a run would, then run the job.

    After `timeout_s` it is cancelled, and those count that have come. Its tasks
    ask for a GPU each if those that train do, unless not `gives_gpus`.

    Raises:
        RunInterrupted: on a KeyboardInterrupt, after the job has been cancelled.
    """
    try:
        ship_engine(spark)
    except ConfigurationError as error:
        return Visit(problem=str(error))
    context = spark.sparkContext
    task, deadline_s = _sent_whole(orders), time.monotonic() + timeout_s

    def action() -> list[dict[str, Any]]:
        if meeting is not None:
            group: Any = context.getLocalProperty("spark.jobGroup.id")
            meeting.running = partial(_running, context, group)
        found = context.parallelize(range(tasks), tasks).mapPartitionsWithIndex(task)
        return (on_gpus(found) if gives_gpus else found).collect()

    def late() -> BaseException | None:
        over = time.monotonic() > deadline_s
        return RunTimeoutError(_too_long(meeting, tasks, timeout_s)) if over else None

    returned: list[dict[str, Any]] = []
    problem = ""
    try:
        # Whether executors have the driver's engine is one of the questions.
        returned = run_job(
            spark, action, description="sparkwright doctor", error=late, needs_engine=False
        )
    except RunTimeoutError as error:
        problem = str(error)
    except Exception as error:
        # Whatever keeps the job from working is what was to be found out.
        problem = in_short(error)
    found = {} if meeting is None else dict(meeting.answers)
    # Those from tasks are later and include files too.
    found.update({answer["executor"]: answer for answer in returned if "place" in answer})
    answers = sorted(found.values(), key=lambda answer: _by_number(answer["label"]))
    return Visit(answers=answers, problem=problem)


def _running(context: Any, group: str) -> int:
    """Return the number of tasks that Spark has begun and that have not ended."""
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = [tracker.getStageInfo(stage) for job in jobs if job for stage in job.stageIds]
    return sum(stage.numActiveTasks for stage in stages if stage)


def _too_long(meeting: Meeting | None, tasks: int, timeout_s: float) -> str:
    came = len(meeting.came) if meeting is not None else 0
    if not came:
        return f"no task of {tasks} began within {timeout_s:g} s"
    return f"{came} of {tasks} tasks came, and not all ended within {timeout_s:g} s"


def in_short(error: BaseException) -> str:
    """Shorten an error, which may be a page of Java, to a few lines."""
    text = str(translated(error)).strip()
    if match := _TELLING.search(text):
        return match[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines[:_LINES_OF_PROBLEM])[:600] or type(error).__name__


def _by_number(label: str) -> list[tuple[int, str]]:
    return [(int(number or 0), text) for number, text in re.findall(r"(\d+)|(\D+)", label)]


def _sent_whole(orders: Orders) -> Callable[[int, Iterable[Any]], list[dict[str, Any]]]:
    """Return a function for `mapPartitionsWithIndex` that does not need the kit to run."""
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

    # Made inside a function, so it is sent whole as well.
    return task
