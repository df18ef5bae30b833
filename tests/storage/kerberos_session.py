"""Works with a secured HDFS by a session with a keytab; prints what was seen.

Run by its path, in a process of its own: Java learns of a cluster only when it starts.
"""

import json
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.spark.helpers import dense, weights

import sparkwright as sw
from sparkwright.cluster import delegation
from sparkwright.cluster.jobs import run_job
from sparkwright.storage.files import system_of, write_bytes


def reader(url):
    """A task that reads a file by a new connection: its content, or the error."""

    def task(_):
        from sparkwright.storage import _hdfs
        from sparkwright.storage.files import read_bytes

        _hdfs._system.cache_clear()
        try:
            yield read_bytes(url).decode()
        except OSError as error:
            yield f"{type(error).__name__}: {error}"

    return task


def main(url, keytab, folder):
    by_name = url.replace("127.0.0.1", "localhost")
    settings = {
        "spark.kerberos.keytab": keytab,
        "spark.kerberos.principal": "alice",
        "spark.kerberos.access.hadoopFileSystems": by_name,
        # On this machine executors would find the driver's.
        "spark.executorEnv.KRB5CCNAME": "FILE:/nowhere",
        "spark.executorEnv.KRB5_CLIENT_KTNAME": "/nowhere",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": f"file://{folder}",
    }
    spark = sw.start_spark(workers=2, settings=settings)
    one = spark.sparkContext.parallelize([0], 1)
    found = {}
    spark.range(3).write.parquet(f"{url}/spark/table")
    found["rows"] = spark.read.parquet(f"{url}/spark/table").count()
    delegation._NEW_AFTER_S = 0.0

    def read(at):
        return run_job(spark, one.mapPartitions(reader(at)).collect, description="read")[0]

    write_bytes(f"{url}/spark/a", b"content")
    spark.sparkContext.setLocalProperty(delegation.TOKENS, "")
    found["none"] = one.mapPartitions(reader(f"{url}/spark/a")).collect()[0]
    labels = np.arange(120, dtype=np.int32) % 3
    features = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    data = sw.data.from_arrays(spark, features, labels, partitions=2)
    export = data.export(f"{url}/spark/export", batch_size=8)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=8, seed=1)
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit_paths(export, epochs=1)
    found["examples"] = network.evaluate_paths(f"{url}/spark/export").examples
    system, _ = system_of(url)
    found["owners"] = sorted(
        {system.info(system._strip_protocol(p))["owner"] for p in export.paths}
    )
    network.save(f"{url}/spark/dense.keras")
    loaded = sw.load_model(f"{url}/spark/dense.keras")
    found["loaded_equals_saved"] = bool(np.array_equal(weights(loaded), weights(network.model)))
    found["by_name"] = read(f"{by_name}/spark/a")
    delegation._NEW_AFTER_S = 3600.0
    time.sleep(41)
    found["expired"] = read(f"{url}/spark/a")
    delegation._NEW_AFTER_S = 0.0
    found["later"] = read(f"{url}/spark/a")
    tokens = [text for _, text in delegation._obtained.values()]
    spark.stop()
    files = [path for path in Path(folder).rglob("*") if path.is_file()]
    events = "".join(path.read_text() for path in files if "app-" in str(path))
    found["logged"] = {
        "the setting": delegation.TOKENS in events,
        "a token": not tokens or any(text[:40] in events for text in tokens),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
