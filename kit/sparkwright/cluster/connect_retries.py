"""Retries of Spark Connect's client: a run notices within half a minute that its server is gone.

PySpark's default policy tries again for ten minutes and more, and each call waits again. The user's
own calls keep their policies: this one holds on the kit's threads, and for calls that cancel jobs.
"""

import contextlib
import threading
import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNREACHABLE_S = 20.0
_AGAIN_MS = 1000
# Failures at least this close belong to the same outage.
_SAME_OUTAGE_S = 5.0
_of_thread = threading.local()  # `bounded`: whether it makes a call of the kit


def bound_retries(spark: "SparkSession") -> None:
    """Let calls of the kit's threads give up when the server has been unreachable for 20 s.

    Nothing with PySpark 3.5, whose client has no policies.
    """
    client: Any = spark.client
    if not hasattr(client, "get_retry_policies"):
        return
    from pyspark.sql.connect.client.retries import RetryPolicy, RetryPolicyState

    policies = client.get_retry_policies()
    outage = _Outage()

    class UntilGone(RetryPolicy):
        def can_retry(self, exception: BaseException) -> bool:
            is_bounded = getattr(_of_thread, "bounded", False)
            ours = threading.current_thread().name.startswith("sparkwright-")
            return (is_bounded or ours) and any(policy.can_retry(exception) for policy in policies)

        def to_state(self) -> RetryPolicyState:
            return State(self)

    class State(RetryPolicyState):
        def next_attempt(self, exception: BaseException | None = None) -> int | None:
            del exception
            return None if outage.lasts_s(time.monotonic()) > _UNREACHABLE_S else _AGAIN_MS

    client.set_retry_policies([UntilGone(), *policies])


@contextlib.contextmanager
def retries_bounded() -> Generator[None]:
    """Bound the retries of this thread's calls within the block, whosever thread it is."""
    _of_thread.bounded = True
    try:
        yield
    finally:
        _of_thread.bounded = False


class _Outage:
    """How long the server has been unreachable, from the failures of all threads."""

    def __init__(self) -> None:
        self._first_s = self._last_s = -_SAME_OUTAGE_S
        self._lock = threading.Lock()

    def lasts_s(self, failed_at_s: float) -> float:
        """Count a failure; return for how many seconds there have been only failures."""
        with self._lock:
            if failed_at_s - self._last_s >= _SAME_OUTAGE_S:
                self._first_s = failed_at_s
            self._last_s = failed_at_s
            return failed_at_s - self._first_s
