import os

import pytest
from tests.cases import cases
from tests.chaos.clusters import laboratory_on_hosts
from tests.chaos.experiments import Experiment, draw
from tests.cluster.helpers import needs_hosts

from sparkwright.errors import ConfigurationError

pytestmark = [
    *(pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow, needs_hosts),
    pytest.mark.timeout(300),
]

# A third of the random ones.
RUNS = int(os.environ.get("SPARKWRIGHT_CHAOS_RUNS", "4")) // 2
FIRST = int(os.environ.get("SPARKWRIGHT_CHAOS_FIRST", "0"))
SPECULATION = {
    "spark_speculation": "true",
    "spark_speculation_interval": "100ms",
    "spark_speculation_quantile": "0.1",
    "spark_speculation_multiplier": "1.01",
    "spark_speculation_minTaskRuntime": "100ms",
    # Of stages with one task, which have no others to be compared with.
    "spark_speculation_task_duration_threshold": "1s",
}


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    with laboratory_on_hosts(tmp_path_factory.mktemp("hosts")) as found:
        yield found


@cases("master", "averaging", "sharing")
def test_a_full_disk_loses_no_average(laboratory, report, master):
    """It stays full: a replacement on that host finds no room, and there is no other host."""
    experiment = Experiment(
        master=master,
        victim="disk",
        fault="fill for good",
        moment="epoch end",
        pause_s=200,
        hopeless=True,
    )
    report(laboratory.perform(experiment))


def test_sharing_continues_after_a_long_cut_is_mended(laboratory, report):
    experiment = Experiment(
        master="sharing", victim="network", fault="cut from another", moment="epoch end", pause_s=40
    )
    report(laboratory.perform(experiment))


@cases("experiment", *[draw(n, hosts=True) for n in range(FIRST, FIRST + RUNS)], ids=str)
def test_a_run_survives_a_random_fault_of_a_host(laboratory, report, experiment):
    report(laboratory.perform(experiment))


def test_speculation_is_rejected_or_harmless(laboratory, report):
    """Spark copies slow tasks to other hosts: with two workers, the third host is free for that."""
    try:
        laboratory.restart(**SPECULATION)
        laboratory.ready()
        experiment = Experiment(victim="trainer", fault="speculation", moment="first second")
        report(laboratory.verdict(laboratory.start(experiment, workers=2)))
    except ConfigurationError as error:
        if "speculation" not in str(error):
            raise
