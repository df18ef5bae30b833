import numpy as np
import psutil
import pytest
from tests.benchmarks._harness import TRAINER, processes
from tests.spark.helpers import KillOnce, Paced, dense, weights
from tests.waiting import wait_until

import sparkwright as sw

BY_DRIVER = {"communication": "driver", "batch_size_per_worker": 5, "seed": 1}


@pytest.mark.usefixtures("local_trainers")
def test_workers_open_no_ports_and_connect_only_to_the_driver(blobs):
    master = sw.SharedTrainingMaster(**BY_DRIVER).with_hooks(Paced())
    with sw.ParallelWrapper(dense(), master, workers=2, cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=30, display=False)
        wait_until(lambda: len(run.history) > 4, 60)
        pids = {worker.pid for worker in run.status.workers}
        assert pids <= {process.pid for process in processes(TRAINER)}
        found = [c for pid in pids for c in psutil.Process(pid).net_connections("tcp")]
        run.stop()
        run.wait(60)
    assert len(pids) == 2
    assert not [c for c in found if c.status == psutil.CONN_LISTEN]
    drivers = {c.raddr for c in found if c.raddr}
    assert len(drivers) == 1, "all go to one port"
    assert len([c for c in found if c.raddr]) >= 4  # two control lines, and both ends of a link


@pytest.mark.thorough
@pytest.mark.usefixtures("local_trainers")
def test_killed_worker_is_replaced(blobs, tmp_path):
    # Who goes on without the lost worker takes another way.
    mesh = sw.MeshConfig(replacement_grace_s=60)
    master = sw.ParameterAveragingTrainingMaster(**BY_DRIVER, mesh=mesh)
    killed = tmp_path / "killed"
    found = []
    for hooks in ([], [KillOnce(str(killed), at=5)]):
        model, hooked = dense("adam"), master.with_hooks(*hooks)
        with sw.ParallelWrapper(model, hooked, workers=2, cores_per_worker=1) as wrapper:
            run = wrapper.start(blobs, display=False)
            run.wait(120)
        assert run.history["examples"].sum() == 120
        found.append(weights(model))
    assert killed.exists()
    np.testing.assert_array_equal(found[0], found[1])
