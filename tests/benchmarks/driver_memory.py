"""Memory on the driver while an exact ROC of ever more rows is evaluated."""

import gc
from pathlib import Path

import numpy as np
from tests.benchmarks._harness import dense, row, seconds, status_mib

import sparkwright as sw
from sparkwright.data import DataSet, DistributedDataSet, to_bytes

ROWS = (1_000_000, 10_000_000)
PARTITIONS = 8
BATCH_SIZE = 4_096
_CHUNK_ROWS = 25_000


def driver_memory():
    """The driver's Python (peak RSS, growth) and JVM (peak heap) in `evaluate_roc`, by rows.

    A million rows still come to the driver as they are; more are sorted on the cluster.
    """
    spark = sw.start_spark(workers=2)
    network = sw.SparkNetwork(spark, _tiny())
    network.evaluate_roc(_data(spark, ROWS[0] // 10), batch_size=BATCH_SIZE)  # starts TensorFlow
    gc.collect()
    before_mib = status_mib()["VmRSS"]  # of both: what is freed in between is not given back
    found = []
    for rows in ROWS:
        heap = _heap(spark)
        gc.collect()
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        data = _data(spark, rows)
        spent_s = seconds(lambda data=data: network.evaluate_roc(data, batch_size=BATCH_SIZE))
        heap_mib = sum(int(pool.getPeakUsage().getUsed()) for pool in heap) / 2**20
        found.append((rows, status_mib()["VmHWM"] - before_mib, heap_mib, spent_s))
    spark.stop()
    (_, small_mib, small_heap_mib, _), (_, large_mib, large_heap_mib, spent_s) = found
    scores = f"{ROWS[1] / 1e6:g} M rows"
    yield row(
        f"exact ROC of {scores}: driver's Python growth, baseline a tenth",
        *(large_mib, "MiB", small_mib),
        ratio=None,
        target=f"well below {4 * ROWS[1] >> 20} MiB of scores",
        runs={"rows, python_mib, heap_mib, seconds": found},
    )
    what = f"exact ROC of {scores}: driver's JVM heap, peak, baseline a tenth"
    yield row(what, large_heap_mib, "MiB", small_heap_mib)
    yield row(f"exact ROC of {scores}, made and evaluated", spent_s, "s")


def _tiny():
    import keras

    keras.utils.set_random_seed(0)
    model = dense(4, 1, top="sigmoid")
    model.compile("sgd", loss="binary_crossentropy")
    return model


def _data(spark, rows):
    """Examples that the executors make when they are needed."""

    def made(partition):
        random = np.random.default_rng(partition)
        for start in range(0, rows // PARTITIONS, _CHUNK_ROWS):
            count = min(_CHUNK_ROWS, rows // PARTITIONS - start)
            x = random.normal(size=(count, 4)).astype(np.float32)
            noise = random.normal(size=count)
            yield to_bytes(DataSet(x, (x.sum(axis=1) + noise > 0).astype(np.int32)))

    numbers = spark.sparkContext.parallelize(range(PARTITIONS), PARTITIONS)
    return DistributedDataSet(spark, numbers.flatMap(made))


def _heap(spark):
    """The parts of the driver's JVM heap, whose peaks begin anew."""
    jvm = spark.sparkContext._jvm
    jvm.java.lang.System.gc()
    beans = jvm.java.lang.management.ManagementFactory.getMemoryPoolMXBeans()
    pools = [bean for bean in beans if str(bean.getType().name()) == "HEAP"]
    for pool in pools:
        pool.resetPeakUsage()
    return pools
