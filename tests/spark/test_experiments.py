import numpy as np
import pytest

import sparkwright as sw
from sparkwright.experiments import Experiment, prepare
from sparkwright.networks import LayerSpec, NetworkSpec, OutputSpec

pytestmark = pytest.mark.spark


def small_network():
    return NetworkSpec(
        layers=(
            LayerSpec(kind="Input", name="image", options={"shape": [28, 28, 1]}),
            LayerSpec(kind="AveragePooling2D", name="pool", options={"pool_size": 4}),
            LayerSpec(kind="Flatten", name="flatten"),
            LayerSpec(kind="Dense", name="out", options={"units": 10, "activation": "softmax"}),
        ),
        outputs=(
            OutputSpec(layer="out", loss="sparse_categorical_crossentropy", metrics=("accuracy",)),
        ),
    )


@pytest.fixture(scope="module")
def experiment():
    return Experiment(
        network=small_network(),
        master=sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, workers=2),
        epochs=2,
        normalize="min_max",
    )


@pytest.fixture(scope="module")
def prepared(spark, experiment):
    return experiment.prepare(spark)


@pytest.fixture(scope="module")
def first(prepared):
    """The first run of what was prepared, and the weights at its end."""
    run = prepared.start(display=False)
    return run, run.wait().get_weights()


def assert_same_weights(ours, theirs):
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one, other)


def test_same_yaml_trains_the_same_network_again(spark, experiment, first):
    run = Experiment.from_yaml(experiment.to_yaml()).start(spark, display=False)
    assert_same_weights(run.wait().get_weights(), first[1])
    assert run.status.epoch == 2
    assert run.status.validation


@pytest.mark.thorough
def test_script_reproduces_the_experiment(experiment, first):
    # Spark runs already: the code's own start returns the session there is.
    made = {}
    exec(experiment.to_code(), made)
    assert_same_weights(made["model"].get_weights(), first[1])
    assert made["evaluation"].examples == made["test"].count()


@pytest.mark.thorough
def test_only_a_run_with_fresh_weights_has_reproducing_code(spark, experiment, prepared, first):
    kept = prepare(experiment, spark, data=prepared.data, network=prepared.network)
    known = [first[0].code]
    for each in (prepared, kept):
        run = each.start(display=False)
        run.stop()
        run.wait()
        known.append(run.code)
    assert known == [experiment.to_code(), None, None]
