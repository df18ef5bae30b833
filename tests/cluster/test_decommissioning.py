"""A run on a cluster that takes a machine away, after Spark's notice of it."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.spark import helpers
from tests.spark.helpers import Paced, dense, numbered
from tests.support.standalone import StandaloneCluster
from tests.waiting import wait_until

import sparkwright as sw

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

NAMES = ("worker-1", "worker-2", "worker-3")
ENABLED = {"spark.decommission.enabled": "true"}


@pytest.fixture
def cluster() -> Iterator[StandaloneCluster]:
    with StandaloneCluster(workers=NAMES, settings=ENABLED) as running:
        yield running


@pytest.fixture
def spark_there(cluster: StandaloneCluster) -> Iterator[Any]:
    import cloudpickle
    import pyspark.cloudpickle

    # Executors cannot import test modules: send their classes whole.
    for module in (cloudpickle, pyspark.cloudpickle):
        module.register_pickle_by_value(helpers)
    session = sw.start_spark(
        workers=len(NAMES),
        memory_per_worker_mb=512,
        master=cluster.url,
        settings=cluster.driver_settings | ENABLED,
    )
    yield session
    session.stop()


def test_worker_of_a_decommissioned_machine_replaces_a_joined_worker(
    cluster: StandaloneCluster, spark_there: Any
) -> None:
    examples = 203
    # A slot is left after half this time.
    mesh = sw.MeshConfig(replacement_timeout_s=20)
    master = sw.ParameterAveragingTrainingMaster(
        workers=(2, 3), batch_size_per_worker=5, averaging_frequency=2, seed=1, mesh=mesh
    )
    network = sw.SparkNetwork(spark_there, dense(), master.with_hooks(Paced(0.02)))
    run = network.start(numbered(examples), epochs=1000, display=False)

    def wait_until_these_train(*workers: int, seconds: float = 60) -> None:
        before = run.status.workers
        wait_until(
            lambda: all(run.status.workers[w].steps > before[w].steps + 20 for w in workers),
            seconds,
        )

    def counted() -> Any:
        return run.history.groupby("epoch")["examples"].sum()

    wait_until_these_train(0, 1, 2, seconds=180)  # three processes start TensorFlow
    places = [cluster.worker_of(worker.pid) for worker in run.status.workers]
    assert set(places) == set(NAMES)
    cluster.decommission(places[0])
    cluster.wait_for_workers(2)
    wait_until_these_train(0, 1, 2)  # Spark lets tasks that run go on
    assert not any(worker.restarts for worker in run.status.workers)
    cluster.kill_worker(places[0])
    wait_until(lambda: run.status.workers[0].restarts == 1, 60)
    wait_until_these_train(0, 1)
    now = run.status.workers
    assert [cluster.worker_of(worker.pid) for worker in now[:2]] == [places[2], places[1]]
    assert now[2].state == "lost"
    # Its examples of the epochs that it missed come first.
    wait_until(lambda: (counted()[:-1] == examples).all(), 60)
    run.stop()
    run.wait(60)
    assert (counted()[:-1] == examples).all()
    assert counted().iloc[-1] <= examples
