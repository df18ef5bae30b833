"""Waits until Spark has the executors that a run needs, and says so if they do not come."""

import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from sparkwright.errors import SlotsError

from ._slots import executor_count, gpus_of_executor, is_dynamic, slots_now

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIMEOUT_SETTING = "spark.sparkwright.slotTimeout"
_TIMEOUT_S = 120.0
_LOOK_AGAIN_S = 0.2
_log = logging.getLogger(__name__)


def wait_for_slots(
    spark: "SparkSession", workers: int, *, cancelled: Callable[[], bool] = lambda: False
) -> int | None:
    """Wait until the executors that have come can run `workers` tasks at once.

    Spark itself would wait for ever for executors that no machine can give it.

    Args:
        spark: the session.
        workers: tasks that must run at the same time; where executors have GPUs, each on one.
        cancelled: whether nobody waits any more; default: somebody does.

    Returns:
        The slots there are; None with dynamic allocation, where executors come when tasks wait.

    Raises:
        SlotsError: after the seconds of `spark.sparkwright.slotTimeout`, default 120, or when
            `cancelled`; with what was asked for and found.
    """
    conf = spark.sparkContext.getConf()
    if is_dynamic(conf):
        return None
    timeout_s = float(conf.get(TIMEOUT_SETTING) or _TIMEOUT_S)
    deadline_s, told = time.monotonic() + timeout_s, False
    while (slots := slots_now(spark)) < workers:
        if cancelled():
            raise SlotsError(f"cancelled while {slots} of {workers} task slots had come.")
        if time.monotonic() > deadline_s:
            gpus = gpus_of_executor(conf)
            raise SlotsError(
                "each worker of a run must have a task slot of its own"
                f"{', with a GPU' if gpus else ''}. Received: workers={workers}; the driver waited "
                f"{timeout_s:g} s for Spark ({spark.sparkContext.master}) and has {slots} slots in "
                f"{executor_count(spark)} executors{f' of {gpus} GPUs' if gpus else ''}. See "
                "whether the cluster has so much free"
                + (
                    " and its machines find their GPUs, use fewer workers, or train on CPUs: "
                    "`start_spark(gpus_per_executor=0)`."
                    if gpus
                    else ", or use fewer workers."
                )
            )
        if not told:
            _log.info("waiting for Spark's executors: %d of %d slots are there", slots, workers)
            told = True
        time.sleep(_LOOK_AGAIN_S)
    return slots
