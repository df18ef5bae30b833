import ipaddress
import itertools
from dataclasses import replace

import numpy as np
import pytest
from tests.cluster.helpers import needs_hosts
from tests.spark import helpers
from tests.spark.helpers import Paced, dense, numbered, weights
from tests.support.hosts import Hosts
from tests.support.standalone import StandaloneCluster
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.cluster.slots import task_slots
from sparkwright.errors import ConfigurationError, RunTimeoutError

pytestmark = [pytest.mark.cluster, pytest.mark.spark, needs_hosts]

WORKERS = ("worker-1", "worker-2", "worker-3")
BOTH = (0, 1)
DECOMMISSION = {"spark.decommission.enabled": "true"}
CLOCKS_AHEAD_S = (5.0, -5.0, 0.25)


@pytest.fixture(scope="module", autouse=True)
def _send_by_value():
    """Executors cannot import test modules: send their classes whole, as a notebook's are."""
    sw.spark.send_by_value(helpers)


@pytest.fixture(scope="module")
def machines():
    """A driver's host, a Master's and three Workers'; all but the Master's are in two networks."""
    networks = dict.fromkeys(("outside", *WORKERS), BOTH)
    with Hosts(["master", *WORKERS], networks=networks) as hosts:
        yield hosts


@pytest.fixture(scope="module")
def cluster(machines):
    with StandaloneCluster(
        hosts=machines, workers=WORKERS, settings=DECOMMISSION, worker_timeout_s=4
    ) as running:
        yield running


@pytest.fixture(scope="module")
def spark_there(cluster):
    from pyspark.sql import SparkSession

    assert SparkSession.getActiveSession() is None, "another session would be used instead"
    ahead = ",".join(map(str, CLOCKS_AHEAD_S))
    session = sw.start_spark(
        workers=len(WORKERS),
        master=cluster.url,
        app_name="sparkwright-hosts",
        settings={
            **cluster.driver_settings,
            **DECOMMISSION,
            "spark.task.maxFailures": "8",
            "spark.executorEnv.SPARKWRIGHT_CLOCK_SHIFT_S": ahead,
        },
    )
    yield session
    session.stop()


def executors(spark):
    """Where they are."""
    status = spark.sparkContext._jsc.sc().getExecutorMemoryStatus()
    found = {str(address).rpartition(":")[0] for address in _keys(status)}
    return found - {spark.sparkContext.getConf().get("spark.driver.host")}


def _keys(scala_map):
    keys, found = scala_map.keys().iterator(), []
    while keys.hasNext():
        found.append(keys.next())
    return found


@pytest.fixture
def hosts(machines, cluster, spark_there):
    """All links in order, before and after; every executor there before."""
    machines.links()
    cluster.wait_for_workers(len(WORKERS))
    wait_until(lambda: len(executors(spark_there)) == len(WORKERS), 120)
    yield machines
    machines.links()


@pytest.fixture(scope="module")
def blobs(spark_there):
    """960 examples of 3 classes that can be told apart."""
    random = np.random.default_rng(0)
    labels = np.arange(960, dtype=np.int32) % 3
    features = random.normal(size=(3, 4))[labels] * 2 + random.normal(size=(960, 4))
    return sw.data.from_arrays(spark_there, features.astype(np.float32), labels)


def averaging(**mesh):
    return sw.ParameterAveragingTrainingMaster(
        workers=len(WORKERS),
        batch_size_per_worker=32,
        averaging_frequency=2,
        seed=1,
        mesh=sw.MeshConfig(**mesh),
    )


def sharing(**mesh):
    return sw.SharedTrainingMaster(
        workers=len(WORKERS), batch_size_per_worker=32, seed=1, mesh=sw.MeshConfig(**mesh)
    )


def test_session_has_the_requested_executors_on_all_hosts(hosts, spark_there):
    assert task_slots(spark_there) == len(WORKERS)
    assert executors(spark_there) == {hosts.address(name) for name in WORKERS}


@pytest.mark.parametrize("make", [averaging, sharing], ids=["averaging", "sharing"])
def test_network_mask_selects_the_network_of_training(hosts, spark_there, blobs, make):

    def carried(network):
        pairs = itertools.permutations(WORKERS, 2)
        return sum(hosts.traffic(*pair, network=network).carried_bytes for pair in pairs)

    before = [carried(network) for network in BOTH]
    network = sw.SparkNetwork(spark_there, dense(), make(network_mask=hosts.mask(1)))
    run = network.start(blobs, epochs=4)
    run.wait(120)
    assert run.history["examples"].sum() == 4 * 960
    inside = ipaddress.ip_network(hosts.mask(1))
    assert all(ipaddress.ip_address(worker.host) in inside for worker in run.status.workers)
    spark_bytes, training_bytes = (carried(n) - b for n, b in zip(BOTH, before, strict=True))
    assert training_bytes > spark_bytes


def test_a_mask_of_another_network_is_rejected_before_anything_starts(hosts, spark_there, blobs):
    network = sw.SparkNetwork(spark_there, dense(), averaging(network_mask="203.0.113.0/24"))
    with pytest.raises(ConfigurationError, match=hosts.address("outside", network=1)):
        network.start(blobs)


def test_clock_offsets_are_measured_within_two_milliseconds(hosts, spark_there, blobs):
    master = replace(averaging(), collect_training_stats=True)
    run = sw.SparkNetwork(spark_there, dense(), master).start(blobs, epochs=8)
    run.wait(120)
    clocks = run.timeline.clocks
    assert len(clocks) == len(WORKERS)
    for clock, ahead_s in zip(clocks, CLOCKS_AHEAD_S, strict=True):
        assert abs(clock.offset_s - ahead_s) <= 2e-3


class Trained:
    """A run that goes on until the test has seen enough."""

    def __init__(self, spark, master, data, *, connect_timeout_s=3):
        # 3 s instead of 15 and 30 s, so that the test is over sooner.
        mesh = replace(master.mesh, peer_timeout_s=3, connect_timeout_s=connect_timeout_s)
        master = replace(master, mesh=mesh).with_hooks(Paced(0.05))
        self.run = sw.SparkNetwork(spark, dense(), master).start(data, epochs=1000)

    def goes_on(self, seconds=90):
        """Wait until many more minibatches are done, by whoever does them."""
        before = self._steps
        wait_until(lambda: self._steps >= before + 30, seconds)
        return True

    def worker_at(self, address):
        """The number of the one who trains at that address."""
        (found,) = (each.worker for each in self.run.status.workers if each.host == address)
        return found

    @property
    def lost(self):
        return {each.worker for each in self.run.status.workers if each.state == "lost"}

    @property
    def _steps(self):
        return sum(worker.steps for worker in self.run.status.workers)

    def end(self):
        self.run.stop()
        return self.run.wait(60)


def test_worker_with_a_cut_link_to_the_driver_is_lost_and_rejoins(hosts, spark_there, blobs):
    trained = Trained(spark_there, averaging(network_mask=hosts.mask(1)), blobs)
    assert trained.goes_on()
    lost = trained.worker_at(hosts.address("worker-2", network=1))
    hosts.link("worker-2", "outside", both_ways=False, network=1, cut=True)
    wait_until(lambda: lost in trained.lost, 30)
    assert trained.goes_on()
    hosts.links()
    wait_until(lambda: lost not in trained.lost, 120)
    assert trained.run.status.workers[lost].restarts >= 1
    assert trained.goes_on()
    trained.end()


def test_unreachable_required_workers_end_the_run_with_a_reason(hosts, spark_there, blobs):
    master = averaging(network_mask=hosts.mask(1))
    # The workers try ten times to form a group.
    trained = Trained(spark_there, master, blobs, connect_timeout_s=1)
    assert trained.goes_on()
    for name in WORKERS[1:]:
        hosts.link(WORKERS[0], name, both_ways=False, network=1, cut=True)
    with pytest.raises(RunTimeoutError, match="Open the ports between them"):
        trained.run.wait(150)


def test_others_continue_without_a_partitioned_host_that_rejoins(
    hosts, cluster, spark_there, blobs
):
    trained = Trained(spark_there, sharing(), blobs)
    assert trained.goes_on()
    lost = trained.worker_at(hosts.address("worker-2"))
    hosts.cut_off("worker-2")
    wait_until(lambda: lost in trained.lost, 30)
    assert trained.goes_on()
    cluster.wait_for_workers(2)
    assert lost in trained.lost
    hosts.reconnect("worker-2")
    wait_until(lambda: lost not in trained.lost, 120)
    assert trained.run.status.workers[lost].restarts >= 1
    assert trained.goes_on()
    assert np.isfinite(weights(trained.end())).all()


def test_worker_of_a_decommissioned_machine_replaces_a_joined_worker(hosts, cluster, spark_there):
    examples = 203
    # A slot is left after half this time.
    mesh = sw.MeshConfig(replacement_timeout_s=20)
    master = sw.ParameterAveragingTrainingMaster(
        workers=2, max_workers=3, batch_size_per_worker=5, averaging_frequency=2, seed=1, mesh=mesh
    )
    network = sw.SparkNetwork(spark_there, dense(), master.with_hooks(Paced(0.02)))
    run = network.start(numbered(examples), epochs=1000, display=False)

    def wait_until_these_train(*workers, seconds=60):
        before = run.status.workers
        wait_until(
            lambda: all(run.status.workers[w].steps > before[w].steps + 20 for w in workers),
            seconds,
        )

    def counted():
        return run.history.groupby("epoch")["examples"].sum()

    wait_until_these_train(0, 1, 2, seconds=180)  # three processes start TensorFlow
    places = [cluster.worker_of(worker.pid) for worker in run.status.workers]
    assert set(places) == set(WORKERS)
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
