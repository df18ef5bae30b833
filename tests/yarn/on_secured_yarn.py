"""Works on a YARN and an HDFS with Kerberos; prints what was seen.

Run by its path, in a process of its own: Java learns of a cluster only when it starts.
"""

import json
import os
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.spark.helpers import dense, weights
from tests.support.hdfs import HdfsCluster
from tests.support.kerberos import Kerberos
from tests.support.yarn import YarnCluster
from tests.yarn.on_yarn import data_on

import sparkwright as sw


def work(kerberos, yarn):
    """Train from HDFS, write to it, and read by Spark itself."""
    url = f"{yarn.hdfs.url}/user/alice"
    options = f"-XX:+UseSerialGC -Djava.security.krb5.conf={kerberos.environment['KRB5_CONFIG']}"
    settings = {
        **yarn.driver_settings,
        "spark.executor.extraJavaOptions": options,
        "spark.yarn.am.extraJavaOptions": options,
        "spark.executorEnv.HADOOP_CONF_DIR": str(yarn.configuration_folder),
    }
    spark = sw.start_spark(master="yarn", workers=2, memory_per_worker_mb=512, settings=settings)
    export = data_on(spark).export(f"{url}/export", batch_size=8)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=8, seed=1)
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit_paths(export, epochs=1)
    network.save(f"{url}/dense.keras")
    frame = spark.createDataFrame([(1,), (2,)], "number int")
    frame.write.parquet(f"{url}/table")
    loaded = sw.load_model(f"{url}/dense.keras")
    found = {
        "examples": network.evaluate_paths(f"{url}/export").examples,
        "loaded_equals_saved": bool(np.array_equal(weights(loaded), weights(network.model))),
        "rows": spark.read.parquet(f"{url}/table").count(),
    }
    spark.stop()
    return found


def main():
    with Kerberos("alice") as kerberos:
        os.environ |= kerberos.environment
        settings = kerberos.hadoop_settings
        with HdfsCluster(datanodes=1, replication=1, settings=settings) as hdfs:
            os.environ["KRB5CCNAME"] = f"FILE:{kerberos.folder}/superuser"
            kerberos.log_in("nn/localhost", kerberos.folder / "superuser")
            hdfs.command("dfs", "-mkdir", "-p", "/user/alice")
            hdfs.command("dfs", "-chown", "alice", "/user/alice")
            os.environ["KRB5CCNAME"] = f"FILE:{kerberos.folder}/tickets"
            with YarnCluster(hdfs=hdfs, memory_mb=(6144,), settings=settings) as yarn:
                os.environ["HADOOP_CONF_DIR"] = str(yarn.configuration_folder)
                kerberos.log_in("alice", kerberos.folder / "tickets")
                found = work(kerberos, yarn)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
