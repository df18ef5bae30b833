"""Translate failures of tasks and executors into actionable errors."""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import sparkwright.errors as errors
from sparkwright.errors import ConfigurationError, SparkwrightError, WorkerError, advised

from .connect import context_of, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_TRACE = re.compile(r"Traceback \(most recent call last\):\n.*?(?=\n\s*\tat |\n\n|\Z)", re.DOTALL)
_WORKER = re.compile(
    r"sparkwright\.errors\.WorkerError: (?:worker (\d+)|a task) on (\S+) failed: (.+)"
)
_HOST = re.compile(r"\(TID \d+\) \(([^ )]+) executor (\S+?)\)")
_PHYSICAL = re.compile(r"exceeding physical memory limits\.?\s*([\d.]+ \wB) of ([\d.]+ \wB)?")
_VIRTUAL = re.compile(r"exceeding virtual memory limits\.?\s*([\d.]+ \wB) of ([\d.]+ \wB)?")
_KILLED = re.compile(r"OOMKilled|possible container OOM|Exit code is 137")
_SETTINGS = ("spark.executor.memory", "spark.executor.memoryOverhead")
_log = logging.getLogger(__name__)
_LOOK_AGAIN_S = 2.0
_END_TIMEOUT_S = 5.0
_NEWS_TIMEOUT_S = 1.0


def translated(error: BaseException, *, because: str | None = None) -> BaseException:
    """Return a failed task's own exception in place of py4j's; other errors unchanged."""
    is_java = type(error).__module__.startswith(("py4j", "pyspark"))
    if isinstance(error, SparkwrightError) or not is_java:
        return error
    text = str(error)
    traces = _TRACE.findall(text)
    if (told := memory_kill(text, {})) or (because and not traces):
        return WorkerError(worker=-1, host=_host(text), reason=because or told or "")
    if not traces:
        return error
    trace = traces[-1].strip()
    last = trace.splitlines()[-1]
    if ours := _WORKER.fullmatch(last):  # already a message; its traceback is not useful
        return WorkerError(worker=int(ours[1] or -1), host=ours[2], reason=ours[3])
    name, _, message = last.partition(": ")
    known: Any = getattr(errors, name.rpartition(".")[2], None)
    if name.startswith("sparkwright.") and isinstance(known, type) and known is not WorkerError:
        try:
            return known(message)
        except TypeError:
            pass
    host = _host(text)
    # Usually found earlier, when engines are compared; but executors can join later.
    if last.startswith("ModuleNotFoundError: No module named 'sparkwright"):
        return ConfigurationError(
            f"executors need the driver's version of sparkwright. Received: {last} on {host}. "
            "Start the session without `spark.sparkwright.ship=never`, so that the driver ships it."
        )
    return WorkerError(worker=-1, host=host, reason=advised(last), worker_traceback=trace)


def _host(text: str) -> str:
    found = _HOST.search(text)
    return found[1] if found else "an executor"


def memory_kill(reason: str, settings: Mapping[str, str | None], *, who: str = "") -> str | None:
    """Explain why an executor was killed for its memory; None for other reasons.

    Example:
        >>> text = "Container killed by YARN for exceeding physical memory limits. 1.2 GB of 1 GB"
        >>> memory_kill(text, {"spark.executor.memory": "512m"})  # doctest: +ELLIPSIS
        'an executor exceeded its container. Received: an executor took 1.2 GB of 1 GB, and ...
    """
    if found := _VIRTUAL.search(reason):
        return (
            "an executor exceeded its container's address space. Received: "
            f"{who or 'an executor'} reserved {_amounts(found)}, and YARN killed it. TensorFlow "
            "reserves addresses that it never uses: set yarn.nodemanager.vmem-check-enabled "
            "to false on the cluster, or raise yarn.nodemanager.vmem-pmem-ratio."
        )
    if found := _PHYSICAL.search(reason):
        took = f"took {_amounts(found)}, and YARN killed it"
    elif _KILLED.search(reason):
        took = "was killed externally (exit code 137), usually for lack of memory"
    else:
        return None
    known = ", ".join(f"{name}={settings[name]}" for name in _SETTINGS if settings.get(name))
    return (
        f"an executor exceeded its container. Received: {who or 'an executor'} {took}"
        f"{f' ({known})' if known else ''}. Raise spark.executor.memoryOverhead, which TensorFlow "
        "uses; `sw.advise(model, workers=…).memory` computes the amount."
    )


def _amounts(found: re.Match[str]) -> str:
    return f"{found[1]} of {found[2]}" if found[2] else f"{found[1]}"


class LostExecutors:
    """Context manager that watches for executors killed for their memory, and warns of each.

    Spark only logs them on the driver, below the level that notebooks show. It watches on YARN and
    Kubernetes only: other cluster managers do not limit memory.
    """

    def __init__(self, spark: "SparkSession") -> None:
        """Prepare the watch."""
        self._context: Any = context_of(spark)
        self._watched = not is_connect(spark) and self._context.master.startswith(("yarn", "k8s:"))
        self._known: set[str] = set()
        self._looking = threading.Lock()
        self._dead = 0
        self._reasons: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="sparkwright-lost-executors", daemon=True
        )

    def __enter__(self) -> "LostExecutors":
        """Start watching; executors lost earlier are ignored."""
        if self._watched:
            self._update(news=False)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stop watching."""
        self._ended.set()
        if self._watched:
            self._thread.join(_END_TIMEOUT_S)

    def reason(self) -> str | None:
        """Return why the last of them was killed, as one sentence; None if none was.

        Spark records the loss of an executor slightly later than the failure: waits up to a second.
        """
        deadline_s = time.monotonic() + _NEWS_TIMEOUT_S
        while self._watched:
            self._update(news=True)
            if self._reasons or time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        return self._reasons[-1] if self._reasons else None

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_AGAIN_S):
            self._update(news=True)

    def _update(self, *, news: bool) -> None:
        # A context that is stopping raises various errors.
        with self._looking, contextlib.suppress(Exception):
            store = self._context._jsc.sc().statusStore()
            everyone = store.executorList(False)
            dead = everyone.size() - store.executorList(True).size()
            if dead == self._dead:
                return
            settings = dict(self._context.getConf().getAll())
            for number in range(everyone.size()):
                one = everyone.apply(number)
                name = str(one.id())
                if one.isActive() or name in self._known or one.removeReason().isEmpty():
                    continue
                self._known.add(name)
                where = str(one.hostPort()).partition(":")[0]
                who = f"executor {name} on {where}"
                told = memory_kill(str(one.removeReason().get()), settings, who=who)
                if told and news:
                    self._reasons.append(told)
                    _log.warning("%s", told)
            self._dead = dead
