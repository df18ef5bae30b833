import threading

import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import Paced, dense, weights
from tests.support.in_process import fit
from tests.waiting import wait_until

import sparkwright as sw

BY_DRIVER = {"communication": "driver"}


pytestmark = pytest.mark.usefixtures("in_process")


def averaging(**options):
    settings = {
        **{"workers": 3, "batch_size_per_worker": 5, "averaging_frequency": 2, "seed": 1},
        **options,
    }
    return sw.ParameterAveragingTrainingMaster(**settings)


@pytest.mark.thorough
@cases(
    "settings",
    {"mesh": sw.MeshConfig(encrypt=True), "outer_optimizer": sw.OuterOptimizer()},
    {"updater": "local", "exchange_precision": "int8", "averaging_frequency": {1: 1, 2: 2}},
    ids=["encrypted", "int8"],
)
def test_weights_and_scores_equal_those_of_the_ring_bit_for_bit(blobs, settings):
    train, validation = blobs.take(slice(0, 90)), blobs.take(slice(90, 120))
    models, runs = [dense("adam") for _ in range(2)], []
    options = {"validation": validation, "epochs": 2}
    for model, by in zip(models, ({}, BY_DRIVER), strict=True):
        runs.append(fit(model, averaging(**settings, **by), train, **options))
    np.testing.assert_array_equal(weights(models[0]), weights(models[1]))
    scores = [[point.loss for point in run.status.validation] for run in runs]
    assert len(scores[0]) == 2
    assert scores[0] == scores[1]


@pytest.mark.thorough
def test_checkpoint_of_a_run_through_the_driver_resumes_on_the_ring(blobs, tmp_path):
    """Stopped by way of the driver in the second epoch, gone on from by way of the ring."""
    undisturbed, resumed = dense("adam"), dense("adam", seed=9)
    fit(undisturbed, averaging(), blobs, epochs=3)
    kept = sw.Checkpointing(str(tmp_path), every_rounds=2)
    master = averaging(checkpoint=kept, **BY_DRIVER).with_hooks(Paced(0.01))
    with sw.ParallelWrapper(dense("adam"), master, cores_per_worker=1) as wrapper:
        run = wrapper.start(blobs, epochs=3, display=False)
        wait_until(lambda: run.status.epoch >= 2, 60)
        run.stop()
        run.wait(20)
    with pytest.raises(sw.ConfigurationError, match="other data"):
        fit(resumed, averaging(), blobs.take(slice(0, 100)), epochs=3, resume=str(tmp_path))
    fit(resumed, averaging(), blobs, epochs=3, resume=str(tmp_path))
    np.testing.assert_array_equal(weights(resumed), weights(undisturbed))


@pytest.mark.parametrize("master", [averaging, sw.SharedTrainingMaster])
def test_threads_of_the_driver_that_serve_workers_read_no_variables(
    blobs, monkeypatch, tmp_path, master
):
    """TensorFlow's first operation of a thread is a SIGSEGV while no file descriptor is free."""
    from tensorflow.python.ops import gen_resource_variable_ops as operations

    readers, read = set(), operations.read_variable_op

    def noted(*arguments, **options):
        readers.add(threading.current_thread().name)
        return read(*arguments, **options)

    monkeypatch.setattr(operations, "read_variable_op", noted)
    kept = sw.Checkpointing(str(tmp_path), every_rounds=2)
    fit(dense("adam"), master(workers=2, batch_size_per_worker=10, checkpoint=kept), blobs)
    assert readers
    assert not [name for name in readers if name.endswith(("-worker", "-timer"))], readers
