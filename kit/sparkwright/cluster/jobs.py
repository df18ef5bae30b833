"""Interruptible Spark actions, each in a separate job group.

py4j must not be interrupted: a KeyboardInterrupt inside it can run other threads' actions twice,
and does not stop the interrupted job. So each action runs on a separate thread while the calling
thread waits for an event; an interrupt cancels the job group.
"""

import operator
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sparkwright._interrupts import interrupts_raise
from sparkwright._open_files import out_of_files
from sparkwright.errors import DataError, RunInterrupted, SparkwrightError
from sparkwright.options import check_choice

from .connect import FrameRDD, context_of
from .delegation import carry_tokens
from .engine_shipping import ensure_engine
from .held_slots import check_free_slot
from .job_errors import LostExecutors, translated
from .session_end import session_error, unless_ended

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

Result = TypeVar("Result")
Element = TypeVar("Element")


class SparkJob:
    """A Spark action on a separate thread and in a separate job group."""

    def __init__(
        self,
        spark: "SparkSession",
        action: Callable[[], Any],
        *,
        description: str,
        ended: Callable[["SparkJob"], None] | None = None,
        needs_engine: bool = True,
    ) -> None:
        """Start `action`; call `ended` on its thread afterwards.

        With `needs_engine`, first ensure that executors have the driver's version of sparkwright.
        """
        self._spark, self._context = spark, context_of(spark)
        self.group = f"sparkwright-{uuid.uuid4().hex[:8]}"
        self._description = description
        self._action = action
        self._over = threading.Event()
        self._ended, self._needs_engine = ended, needs_engine
        self.value: Any = None
        self.error: BaseException | None = None
        self._cancelled = False
        thread = inheriting_thread(self._act, spark)
        # PySpark first asks Spark for the properties to inherit, which may fail too.
        inherit, thread.run = thread.run, lambda: self._main(inherit)
        thread.name, thread.daemon = self.group, True
        self._thread = thread
        thread.start()

    def wait(self, error: Callable[[], BaseException | None] = lambda: None) -> Any:
        """Wait for the action and return its result."""
        with LostExecutors(self._spark) as lost:
            while not self._over.wait(0.5):
                if (found := error()) is not None:
                    self.cancel_on_thread()
                    raise found
            self._thread.join(5.0)
            if self.error is not None:
                # A cancelled job explains the end of its executors.
                because = None if self._cancelled else lost.reason()
                raise translated(self.error, because=because) from None
        return self.value

    def cancel(self) -> None:
        """Cancel the job; its tasks' Python workers are killed."""
        self._cancelled = True
        with unless_ended(self._spark):
            self._context.cancelJobGroup(self.group)

    def cancel_on_thread(self) -> None:
        """Cancel the job on a thread: an interrupt must not hit the calling thread in py4j."""
        canceller = threading.Thread(target=self.cancel, daemon=True)
        canceller.start()
        canceller.join(5.0)

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` has been called."""
        return self._cancelled

    def _main(self, act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            self.error = out_of_files(error) or session_error(self._spark, error) or error
        finally:
            self._over.set()
            if self._ended is not None:
                self._ended(self)

    def _act(self) -> None:
        context = self._context
        context.setJobGroup(self.group, self._description, interruptOnCancel=True)
        context.setLocalProperty("callSite.short", f"sparkwright: {self._description}")
        if self._needs_engine:
            ensure_engine(self._spark)
        carry_tokens(context)
        if self._cancelled:  # Spark could not cancel a job before its start
            raise SparkwrightError(f"cancelled before its start: {self._description}.")
        self.value = self._action()


def run_partition(rdd: Any, partition: int) -> list[Any]:
    """Compute one partition of `rdd` by a job of one task, and return its elements.

    `SparkContext.runJob` would create and serialize a new RDD for each partition.
    """
    if isinstance(rdd, FrameRDD):
        return rdd.partition(partition)
    context = rdd.context
    socket_info = context._jvm.PythonRDD.runJob(context._jsc.sc(), rdd._jrdd, [partition])
    return _elements_from(socket_info, rdd._jrdd_deserializer)


def run_job(
    spark: "SparkSession",
    action: Callable[[], Result],
    *,
    description: str,
    error: Callable[[], BaseException | None] = lambda: None,
    needs_engine: bool = True,
) -> Result:
    """Run a Spark action so that an interrupt cancels its jobs."""
    check_free_slot(context_of(spark))
    with interrupts_raise() as interrupts:
        job = SparkJob(spark, action, description=description, needs_engine=needs_engine)
        try:
            interrupts.begin()
            return job.wait(error)
        except KeyboardInterrupt:
            job.cancel_on_thread()
            raise RunInterrupted(f"interrupted: {description}") from None


def collect(spark: "SparkSession", rdd: "RDD[Element]", *, description: str) -> list[Element]:
    """Collect `rdd` by `run_job`, and raise a DataError as soon as it occurs.

    A task with a DataError returns it and succeeds, so that Spark does not retry it. An accumulator
    sends the error to the driver while other tasks are still running.
    """
    met = accumulator(context_of(spark), list[DataError], operator.add)
    guarded = rdd.mapPartitions(partial(_with_error_returned, met=met))

    def first() -> DataError | None:
        return next(iter(met.value), None)

    found: list[Any] = run_job(spark, guarded.collect, description=description, error=first)
    for element in found:
        if isinstance(element, DataError):
            raise element
    return found


def accumulator(context: Any, empty: Callable[[], Any], added: Callable[[Any, Any], Any]) -> Any:
    """Create a Spark accumulator that starts with `empty()` and adds by `added`."""
    from pyspark import AccumulatorParam

    class Added(AccumulatorParam[Any]):
        def zero(self, value: Any) -> Any:
            return empty()

        def addInPlace(self, value1: Any, value2: Any) -> Any:
            return added(value1, value2)

    return context.accumulator(empty(), Added())


def storage_level(name: str) -> Any:
    """Return PySpark's StorageLevel by name; "_SER" is ignored, as Python data is serialized."""
    from pyspark import StorageLevel

    levels = {n: v for n, v in vars(StorageLevel).items() if isinstance(v, StorageLevel)}
    plain = str(name).replace("_SER", "")
    check_choice("level", plain, levels)
    return levels[plain]


def inheriting_thread(target: Callable[[], None], spark: "SparkSession") -> Any:
    """Create a thread that inherits the calling thread's local properties."""
    import inspect

    from pyspark import InheritableThread

    made: Any = InheritableThread
    if "session" in inspect.signature(made).parameters:  # PySpark 4.0 and later
        return made(target=target, session=spark)
    return made(target=target)


def _elements_from(socket_info: Any, deserializer: Any) -> list[Any]:
    """Return the elements that Spark sends to a socket of the driver."""
    try:
        from pyspark.util import _load_from_socket  # pyright: ignore[reportPrivateUsage]
    except ImportError:  # PySpark 3.5
        from pyspark.rdd import (  # pyright: ignore[reportMissingImports]
            _load_from_socket,  # pyright: ignore
        )

    loaded: Any = _load_from_socket(socket_info, deserializer)
    if hasattr(loaded, "__enter__"):  # PySpark 4.1 and later close the socket afterwards
        with loaded as elements:
            return list(elements)
    return list(loaded)


def _with_error_returned(elements: Iterable[Any], *, met: Any) -> Iterator[Any]:
    try:
        yield from elements
    except DataError as error:
        met.add([error])
        yield error
