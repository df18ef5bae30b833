"""Spark actions that can be interrupted, each in a job group of its own.

py4j must not be interrupted: a KeyboardInterrupt inside it makes other threads' actions run twice,
and leaves the interrupted job running. So actions run on a thread of their own, the calling thread
waits on a plain event, and an interrupt cancels the job group.
"""

import threading
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from sparkwright._interrupts import interrupts_raise
from sparkwright.errors import RunInterrupted, SparkwrightError

from ._errors import translated
from ._lost_executors import LostExecutors
from ._shipping import ensure_engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")


class SparkJob:
    """An action on a thread and in a job group of its own.

    Attributes:
        value: the action's result, once it is over.
        error: what the action raised; None if nothing.
    """

    def __init__(
        self,
        spark: "SparkSession",
        action: Callable[[], Any],
        *,
        description: str,
        ended: Callable[["SparkJob"], None] | None = None,
    ) -> None:
        """Start `action`; `ended` is called on its thread afterwards."""
        from pyspark import InheritableThread

        self._spark, self._context = spark, spark.sparkContext
        self.group = f"sparkwright-{uuid.uuid4().hex[:8]}"
        self._description = description
        self._action = action
        self._over = threading.Event()
        self._ended = ended
        self.value: Any = None
        self.error: BaseException | None = None
        self._cancelled = False
        thread: Any = InheritableThread(target=self._main, session=spark)
        thread.name, thread.daemon = self.group, True
        self._thread = thread
        thread.start()

    def wait(self) -> Any:
        """The action's result.

        Raises:
            Whatever the action raises; what a task raised, as that error; why executors were ended,
            if that was the end of it.
        """
        with LostExecutors(self._spark) as lost:
            while not self._over.wait(0.5):
                pass
            self._thread.join(5.0)
            if self.error is not None:
                # Who cancels a job knows why its executors end.
                because = None if self._cancelled else lost.reason()
                raise translated(self.error, because=because) from None
        return self.value

    def cancel(self) -> None:
        """Cancel the job; its tasks' Python workers are killed."""
        self._cancelled = True
        self._context.cancelJobGroup(self.group)

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` has been called."""
        return self._cancelled

    def _main(self) -> None:
        context = self._context
        try:
            context.setJobGroup(self.group, self._description, interruptOnCancel=True)
            context.setLocalProperty("callSite.short", f"sparkwright: {self._description}")
            ensure_engine(self._spark)
            if self._cancelled:  # before Spark knew of a job that it could cancel
                raise SparkwrightError(f"cancelled before it began: {self._description}.")
            self.value = self._action()
        except BaseException as error:
            self.error = error
        finally:
            self._over.set()
            if self._ended is not None:
                self._ended(self)


def run_partition(rdd: Any, partition: int) -> list[Any]:
    """The elements of one partition of `rdd`, as a job of one task.

    `SparkContext.runJob` would make, and serialize, a new RDD for each partition.
    """
    from pyspark.util import _load_from_socket  # pyright: ignore[reportPrivateUsage]

    context = rdd.context
    socket_info = context._jvm.PythonRDD.runJob(context._jsc.sc(), rdd._jrdd, [partition])
    with _load_from_socket(socket_info, rdd._jrdd_deserializer) as elements:
        return list(elements)


def run_job(spark: "SparkSession", action: Callable[[], Result], *, description: str) -> Result:
    """Run a Spark action so that an interrupt cancels its jobs.

    Args:
        spark: the session.
        action: what to do.
        description: shown in Spark's pages.

    Raises:
        RunInterrupted: on a KeyboardInterrupt, after the jobs have been cancelled.
        Whatever `SparkJob.wait` raises.
    """
    with interrupts_raise() as interrupts:
        job = SparkJob(spark, action, description=description)
        try:
            interrupts.begin()
            return job.wait()
        except KeyboardInterrupt:
            # Cancelling is a py4j call: on another thread, should the user interrupt again.
            canceller = threading.Thread(target=job.cancel, daemon=True)
            canceller.start()
            canceller.join(5.0)
            raise RunInterrupted(f"interrupted: {description}") from None
