import numpy as np
import pytest

import sparkwright as sw
from sparkwright.networks import ModelDefinition, ModelState
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._replica import make_replica

AVERAGING = sw.ParameterAveragingTrainingMaster(
    workers=2, batch_size_per_worker=10, averaging_frequency=2, seed=3
)
SHARING = sw.SharedTrainingMaster(
    workers=2, batch_size_per_worker=10, threshold=sw.FixedThreshold(threshold=0.01), seed=3
)


def network(policy, *, scale=2.0**15):
    """4 features, 3 classes; half precision inside, single precision at the end."""
    import keras

    keras.utils.set_random_seed(5)
    optimizer = keras.optimizers.Adam(0.02)
    if policy == "mixed_float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=scale)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(8, activation="tanh", dtype=policy),
            keras.layers.BatchNormalization(dtype=policy),
            keras.layers.Dense(3, activation="softmax", dtype="float32"),
        ]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy")
    return model


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize(
    ("master", "policy"),
    [(AVERAGING, "mixed_float16"), (SHARING, "mixed_bfloat16")],
    ids=["averaging float16", "sharing bfloat16"],
)
def test_half_precision_networks_learn(blobs, master, policy):
    x, y = blobs.features["features"], blobs.labels["labels"]
    model = network(policy)
    state = ModelState.of(model)
    assert {str(v.dtype) for v in (*state.averaged, *state.updater)} == {"float32"}
    before = model.evaluate(x, y, verbose=0)
    with sw.ParallelWrapper(model, master, cores_per_worker=1) as wrapper:
        wrapper.fit(blobs, epochs=3)
    assert model.evaluate(x, y, verbose=0) < 0.8 * before
    assert model.layers[0].compute_dtype == policy.removeprefix("mixed_")
    assert {w.dtype for w in model.get_weights()} == {np.dtype(np.float32)}
    if policy == "mixed_float16":
        assert float(model.optimizer.dynamic_scale.numpy()) == 2.0**15


@pytest.mark.thorough
def test_loss_scale_survives_an_updater_reset(blobs):
    # Far too large: its gradients overflow, so that steps do nothing but halve it.
    replica = make_replica(ModelDefinition.of(network("mixed_float16", scale=2.0**60)))
    layout = BatchLayout(replica.model, blobs.columns(), training=True)
    steps = {name: np.stack([column] * 60) for name, column in blobs.columns().items()}
    replica.train(layout, steps)
    optimizer = replica.model.optimizer
    found = float(optimizer.dynamic_scale.numpy())
    assert found < 2.0**40
    replica.reset_updater()
    assert float(optimizer.dynamic_scale.numpy()) == found
    assert all(not np.any(v.numpy()) for v in replica.state.updater)
