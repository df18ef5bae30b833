import keras
import numpy as np
import pytest
from tests.support.in_process import fit

import sparkwright as sw

pytestmark = pytest.mark.usefixtures("in_process")
RANDOM = np.random.default_rng(0)
WIDE, NARROW = RANDOM.normal(size=(64, 4)), RANDOM.normal(size=(64, 2))
KIND = (WIDE[:, 0] > NARROW[:, 0]).astype(np.int32)
FEATURES = {"wide": WIDE.astype(np.float32), "narrow": NARROW.astype(np.float32)}
MASTER = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=16, seed=1)


def named():
    """Its keys are not sorted: Keras then takes a dict only, and no list."""
    inputs = {"wide": keras.Input((4,), name="wide"), "narrow": keras.Input((2,), name="narrow")}
    joined = keras.layers.Concatenate()([inputs["wide"], inputs["narrow"]])
    model = keras.Model(inputs, keras.layers.Dense(2, activation="softmax")(joined))
    model.compile(keras.optimizers.Adam(0.1), "sparse_categorical_crossentropy")
    return model


def test_arrays_are_matched_to_inputs_by_key_and_other_names_rejected():
    keras.utils.set_random_seed(1)
    model = named()
    before = model.evaluate(FEATURES, KIND, verbose=0)
    run = fit(model, MASTER, (FEATURES, KIND), epochs=6, validation=(FEATURES, KIND))
    after = model.evaluate(FEATURES, KIND, verbose=0)
    assert after < 0.8 * before
    assert run.status.validation[-1].loss == pytest.approx(after, rel=1e-5)
    with pytest.raises(sw.DataError, match="one array of features for each"):
        fit(named(), MASTER, ({"wide": WIDE, "n": NARROW}, KIND))
