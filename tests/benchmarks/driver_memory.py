"""Memory on the driver while an exact ROC of ever more rows is evaluated."""

import gc
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import sparkwright as sw
from sparkwright.data import DataSet, DistributedDataSet, to_bytes

Row = dict[str, Any]
ROWS = (1_000_000, 10_000_000)
PARTITIONS = 8
BATCH_SIZE = 4_096
_CHUNK_ROWS = 25_000


def driver_memory() -> Iterator[Row]:
    """The driver's Python (peak RSS, growth) and JVM (peak heap) in `evaluate_roc`, by rows.

    A million rows still come to the driver as they are; more are sorted on the cluster.
    """
    spark = sw.start_spark(workers=2)
    network = sw.SparkNetwork(spark, _tiny())
    network.evaluate_roc(_data(spark, ROWS[0] // 10), batch_size=BATCH_SIZE)  # starts TensorFlow
    gc.collect()
    before_mib = _status_mib("VmRSS")  # of both: what is freed in between is not given back
    found: list[tuple[int, float, float, float]] = []
    for rows in ROWS:
        heap = _Heap(spark)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        began_s = time.perf_counter()
        roc: Any = network.evaluate_roc(_data(spark, rows), batch_size=BATCH_SIZE)
        seconds = time.perf_counter() - began_s
        assert roc.positives + roc.negatives == rows
        found.append((rows, _status_mib("VmHWM") - before_mib, heap.peak_mib(), seconds))
    spark.stop()
    (_, small_mib, small_heap_mib, _), (_, large_mib, large_heap_mib, seconds) = found
    scores = f"{ROWS[1] / 1e6:g} M rows"
    yield {
        "what": f"exact ROC of {scores}: driver's Python growth, baseline a tenth",
        "value": large_mib,
        "unit": "MiB",
        "baseline": small_mib,
        "ratio": None,
        "target": f"well below {4 * ROWS[1] >> 20} MiB of scores",
        "runs": {"rows, python_mib, heap_mib, seconds": found},
    }
    yield {
        "what": f"exact ROC of {scores}: driver's JVM heap, peak, baseline a tenth",
        "value": large_heap_mib,
        "unit": "MiB",
        "baseline": small_heap_mib,
        "ratio": large_heap_mib / small_heap_mib,
        "target": "",
    }
    yield {"what": f"exact ROC of {scores}, made and evaluated", "value": seconds, "unit": "s"}


def _tiny() -> Any:
    import keras

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, activation="sigmoid")])
    model.compile("sgd", loss="binary_crossentropy")
    return model


def _data(spark: Any, rows: int) -> DistributedDataSet:
    """Examples that the executors make when they are needed."""

    def made(partition: int) -> Iterator[bytes]:
        random = np.random.default_rng(partition)
        for start in range(0, rows // PARTITIONS, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows // PARTITIONS - start)
            x = random.normal(size=(count, 4)).astype(np.float32)
            noise = random.normal(size=count)
            yield to_bytes(DataSet(x, (x.sum(axis=1) + noise > 0).astype(np.int32)))

    numbers = spark.sparkContext.parallelize(range(PARTITIONS), PARTITIONS)
    return DistributedDataSet(spark, numbers.flatMap(made))


def _status_mib(key: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(key)) / 1024


class _Heap:
    """The peak of the driver's JVM heap since this was made, garbage included."""

    def __init__(self, spark: Any) -> None:
        jvm = spark.sparkContext._jvm
        jvm.java.lang.System.gc()
        beans = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
        self._pools = [bean for bean in beans if str(bean.getType().name()) == "HEAP"]
        for pool in self._pools:
            pool.resetPeakUsage()

    def peak_mib(self) -> float:
        return sum(int(pool.getPeakUsage().getUsed()) for pool in self._pools) / 2**20
