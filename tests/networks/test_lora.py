import keras
import numpy as np
import pytest
from tests.support.in_process import InProcessPool

import sparkwright as sw
from sparkwright.networks import ModelDefinition, ModelState

TOKENS = np.random.default_rng(0).integers(0, 20, (96, 6), dtype=np.int32)
LABELS = (TOKENS.mean(axis=1) > 9.5).astype(np.int32)
MASTERS = [
    sw.ParameterAveragingTrainingMaster(batch_size_per_worker=16, seed=1),
    sw.SharedTrainingMaster(
        batch_size_per_worker=16, seed=1, threshold=sw.AdaptiveThreshold(initial=1e-2)
    ),
]


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    monkeypatch.setattr("sparkwright.local.TrainerPool", InProcessPool)


def adapted():
    """LoRA in an embedding, a dense layer, and within a layer that does not mention it."""
    tokens = keras.Input((6,), dtype="int32")
    embedding = keras.layers.Embedding(20, 8)
    attention = keras.layers.MultiHeadAttention(2, 4)
    x = embedding(tokens)
    x = keras.layers.BatchNormalization(momentum=0.5)(x + attention(x, x))
    x = keras.layers.GlobalAveragePooling1D()(x)
    dense = keras.layers.Dense(8, activation="relu")
    model = keras.Model(tokens, keras.layers.Dense(2, activation="softmax")(dense(x)))
    for layer in (embedding, dense, attention.query_dense, attention.value_dense):
        layer.enable_lora(2)
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    return model


def paths(variables):
    return [variable.path.partition("/")[2] or variable.path for variable in variables]


def test_only_trainable_variables_are_averaged():
    state = ModelState.of(adapted())
    statistics = paths(state.averaged[state.trainable :])
    assert [name.rpartition("/")[2] for name in statistics] == ["moving_mean", "moving_variance"]
    assert len(state.fixed) == 4
    assert {v.path.rpartition("/")[2] for v in state.fixed} == {"embeddings", "kernel"}


@pytest.mark.thorough(but=["True"])
@pytest.mark.parametrize("frozen", [False, True])
def test_rebuilt_network_has_the_same_variables(frozen):
    """Also with parts of layers frozen as KerasHub's `backbone.enable_lora` does, and by hand."""
    model = adapted()
    if frozen:
        attention = next(x for x in model.layers if isinstance(x, keras.layers.MultiHeadAttention))
        attention.trainable = False
        attention.query_dense.lora_kernel_a.trainable = True
        model.layers[-1].bias.trainable = False
        model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    rebuilt = ModelDefinition.of(model).build()
    for mine, its in zip(model.variables, rebuilt.variables, strict=True):
        assert (mine.shape, mine.trainable, mine.name) == (its.shape, its.trainable, its.name)
    one, other = ModelState.of(model), ModelState.of(rebuilt)
    for group in ("averaged", "updater", "counters", "fixed"):
        assert [v.shape for v in getattr(one, group)] == [v.shape for v in getattr(other, group)]


@pytest.mark.thorough
@pytest.mark.parametrize("master", MASTERS, ids=lambda master: type(master).__name__)
def test_fine_tuning_keeps_frozen_weights_bit_for_bit(master):
    keras.utils.set_random_seed(1)
    model = adapted()
    frozen = [variable for variable in model.weights if not variable.trainable]
    before = {v.path: v.numpy().copy() for v in frozen if "moving" not in v.path}
    loss = model.evaluate(TOKENS, LABELS, verbose=0)
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        wrapper.fit((TOKENS, LABELS), epochs=15)
    assert model.evaluate(TOKENS, LABELS, verbose=0) < 0.9 * loss
    for variable in frozen:
        if variable.path in before:
            np.testing.assert_array_equal(variable.numpy(), before[variable.path])


@pytest.mark.thorough
def test_saved_network_predicts_the_same_and_its_lora_trains_again(tmp_path):
    keras.utils.set_random_seed(1)
    model = adapted()
    with sw.ParallelWrapper(model, MASTERS[0], workers=2) as wrapper:
        wrapper.fit((TOKENS, LABELS), epochs=2)
    sw.save_model(model, str(tmp_path / "adapted.keras"))
    loaded = sw.load_model(str(tmp_path / "adapted.keras"))
    np.testing.assert_allclose(
        loaded.predict(TOKENS, verbose=0), model.predict(TOKENS, verbose=0), atol=1e-6
    )
    gone = [v for v in loaded.trainable_variables if "lora" in v.name and v.name.endswith("_b")]
    assert len(gone) == 2  # LoRA within the attention is part of its weights now
    with sw.ParallelWrapper(loaded, MASTERS[0], workers=2) as wrapper:
        wrapper.fit((TOKENS, LABELS), epochs=1)
    assert all(v.numpy().any() for v in gone)


def test_float8_network_trains_by_averaging_after_loading(tmp_path):
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")]
    model = keras.Sequential([keras.Input((6,)), *layers])
    for layer in layers:
        layer.quantize("float8")
    model.compile(keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy")
    numbers = TOKENS.astype(np.float32) / 10 - 1
    with pytest.raises(sw.ConfigurationError, match="pass a function that builds"):
        ModelDefinition.of(model)
    sw.save_model(model, str(tmp_path / "float8.keras"))
    loaded = sw.load_model(str(tmp_path / "float8.keras"))
    with (
        sw.ParallelWrapper(loaded, MASTERS[1], workers=2) as wrapper,
        pytest.raises(sw.ConfigurationError, match="float8 networks need parameter averaging"),
    ):
        wrapper.fit((numbers, LABELS))
    before = loaded.evaluate(numbers, LABELS, verbose=0)
    with sw.ParallelWrapper(loaded, MASTERS[0], workers=2) as wrapper:
        wrapper.fit((numbers, LABELS), epochs=15)
    assert loaded.evaluate(numbers, LABELS, verbose=0) < 0.8 * before
