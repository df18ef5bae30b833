"""The end of a Spark session, which a run may outlive."""

import contextlib
import subprocess
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from sparkwright.errors import SparkSessionError

from .connect import context_of, is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_JVM_ENDS_S = 2.0
# The exit status of a JVM with -XX:+ExitOnOutOfMemoryError, which `start_spark` sets.
_OUT_OF_MEMORY = 3
# What a client of Spark Connect says when its session or server is gone.
_ENDED_ON_SERVER = (
    "INVALID_HANDLE.SESSION",
    "SESSION_CLOSED",
    "SESSION_CHANGED",
    "NO_ACTIVE_SESSION",
    "StatusCode.UNAVAILABLE",
    "Cannot invoke RPC on closed channel",
)


def session_end(spark: "SparkSession", error: BaseException | None = None) -> str | None:
    """Return what ended the session, as the end of a sentence; None if it runs."""
    if is_connect(spark):
        client: Any = spark.client
        if getattr(client, "is_closed", False) or getattr(client, "_closed", False):
            return "`spark.stop()` was called"
        if any(words in str(error) for words in _ENDED_ON_SERVER):
            return f"the Spark Connect server at {client.host} has ended the session or is gone"
        return None
    context: Any = context_of(spark)
    try:
        has_ended = context._jsc is None or context._jsc.sc().isStopped()
    except Exception:
        return _jvm_end(getattr(context._gateway, "proc", None))
    return "`spark.stop()` was called, or Spark stopped itself" if has_ended else None


def _jvm_end(process: Any) -> str:
    """Describe the end of a driver's JVM that does not answer."""
    with contextlib.suppress(AttributeError, subprocess.TimeoutExpired):
        # Its connections close slightly earlier than it ends.
        status = process.wait(_JVM_ENDS_S)
        if status == _OUT_OF_MEMORY:
            return (
                f"the driver's JVM (process {process.pid}) ran out of memory; raise "
                '`spark.driver.memory`: `sw.start_spark(settings={"spark.driver.memory": "4g"})`'
            )
        return f"the driver's JVM (process {process.pid}) ended with exit status {status}"
    return "the driver's JVM does not answer"


def session_error(
    spark: "SparkSession", error: BaseException | None = None
) -> SparkSessionError | None:
    """Return the error to raise, in place of `error`, if the session has ended, else None."""
    ended = session_end(spark, error)
    if ended is None:
        return None
    return SparkSessionError(
        f"a run or job needs its Spark session to the end. Received: {ended}. Start a new session "
        "(`sw.start_spark`), and create the SparkNetwork in it."
    )


@contextlib.contextmanager
def unless_ended(spark: "SparkSession") -> Generator[None]:
    """Ignore errors of calls to Spark within the context if the session has ended.

    What they release or cancel has ended with the session.
    """
    try:
        yield
    except Exception as error:
        if session_end(spark, error) is None:
            raise
