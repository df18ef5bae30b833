"""Why a cluster manager ended executors, while a run goes on."""

import contextlib
import logging
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any

from ._memory_kill import memory_kill

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_LOOK_AGAIN_S = 2.0
_END_TIMEOUT_S = 5.0
_NEWS_TIMEOUT_S = 1.0


class LostExecutors:
    """Looks, during a `with`, for executors that were ended for their memory, and warns of each.

    Spark itself says so in the driver's log, at a level that notebooks do not show. On YARN and
    Kubernetes only: elsewhere nobody watches over memory.
    """

    def __init__(self, spark: "SparkSession") -> None:
        """Prepare it.

        Args:
            spark: the session.
        """
        self._context: Any = spark.sparkContext
        self._watched = self._context.master.startswith(("yarn", "k8s:"))
        self._known: set[str] = set()
        self._looking = threading.Lock()
        self._dead = 0
        self._reasons: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(
            target=self._watch, name="sparkwright-lost-executors", daemon=True
        )

    def __enter__(self) -> "LostExecutors":
        """Begin; who is gone already is no news."""
        if self._watched:
            self._look(news=False)
            self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End."""
        self._ended.set()
        if self._watched:
            self._thread.join(_END_TIMEOUT_S)

    def reason(self) -> str | None:
        """Why the last of them was ended, as one sentence; None if none was.

        What ends a run is news of the last moment, which Spark writes down a little later: looks
        on for a second.
        """
        deadline_s = time.monotonic() + _NEWS_TIMEOUT_S
        while self._watched:
            self._look(news=True)
            if self._reasons or time.monotonic() > deadline_s:
                break
            time.sleep(0.1)
        return self._reasons[-1] if self._reasons else None

    def _watch(self) -> None:
        while not self._ended.wait(_LOOK_AGAIN_S):
            self._look(news=True)

    def _look(self, *, news: bool) -> None:
        # A context that is being stopped answers with all kinds of errors.
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
