import numpy as np
import pytest
from tests.spark.helpers import dense
from tests.support.standalone import StandaloneCluster
from tests.waiting import wait_until

import sparkwright as sw

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

ALLOCATION = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "0",
    "spark.dynamicAllocation.minExecutors": "0",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "3s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "3s",
    "spark.speculation": "true",
}
# Keeps the files of shuffles while their executor goes.
SHUFFLES = {"spark.shuffle.service.enabled": "true", "spark.shuffle.service.port": "7338"}


@pytest.fixture(scope="module")
def cluster():
    # One Worker: a second one on this address would need another port for its shuffle service.
    with StandaloneCluster(workers=["worker"], cores=2, settings=SHUFFLES) as running:
        yield running


def test_runs_get_executors_that_were_idle_and_gone(cluster):
    random = np.random.default_rng(0)
    features = random.normal(size=(480, 4)).astype(np.float32)
    labels = features[:, :3].argmax(1).astype(np.int32)
    spark = sw.start_spark(
        workers=2,
        memory_per_worker_mb=512,
        master=cluster.url,
        settings=cluster.driver_settings | ALLOCATION | SHUFFLES,
    )
    try:
        master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=16, seed=1)
        network = sw.SparkNetwork(spark, dense(), master)
        data = sw.data.from_arrays(spark, features, labels, partitions=3)
        for epochs in (1, 2):
            run = network.start(data, epochs=epochs, display=False)
            run.wait(200)
            assert run.history.examples.sum() == epochs * len(features)
            wait_until(lambda: _executors(spark) == 0, 60.0)
    finally:
        spark.stop()


def _executors(spark):
    # The driver is one of them.
    return spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
