import keras
import numpy as np
import pytest
from keras import layers
from tests.cases import cases

import sparkwright as sw
from sparkwright.networks import ModelDefinition, ModelState
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers._replica import make_replica

WORDS = ["red", "green", "blue", "cat", "dog", "語", "run", "walk"]


pytestmark = pytest.mark.usefixtures("in_process")


def sentences(count=120):
    """Sentences with the word "cat" or "dog", and which of them it is."""
    random = np.random.default_rng(0)
    labels = np.arange(count, dtype=np.int32) % 2
    texts = [" ".join([*random.choice(WORDS[:3], 3), WORDS[3 + label]]) for label in labels]
    return sw.DataSet({"text": np.array(texts, object)[:, None]}, labels)


def classifier(*, rank=1, optimizer="adam"):
    words = layers.TextVectorization(output_sequence_length=4, name="words")
    words.adapt(sentences().features["text"])
    init = [keras.initializers.RandomUniform(-1, 1, seed=seed) for seed in (1, 2)]
    model = keras.Sequential(
        [
            keras.Input((1,) * rank, dtype="string", name="text"),
            words,
            layers.Embedding(words.vocabulary_size(), 4, embeddings_initializer=init[0]),
            layers.GlobalAveragePooling1D(),
            layers.Dense(2, activation="softmax", kernel_initializer=init[1]),
        ]
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["acc"])
    return model


@cases("rank", 0, 1)
def test_text_input_can_omit_the_axis_of_size_1(rank):
    replica = make_replica(ModelDefinition.of(classifier(rank=rank)))
    for texts in (np.array(["a cat", "dog"], object), np.array([["a cat"], ["dog"]], object)):
        columns = {"features/text": texts}
        [outputs] = replica.predict(BatchLayout(replica.model, columns), columns)
        assert outputs.shape == (2, 2)


@cases(
    "features, message",
    (np.zeros((2, 1), np.float32), "the network's input, string. Received: float32"),
    (np.array([["a", "b"]], object), r"takes, \(1\) an example. Received: \(2\)"),
)
def test_incompatible_features_are_rejected(features, message):
    replica = make_replica(ModelDefinition.of(classifier()))
    with pytest.raises(sw.DataError, match=message):
        BatchLayout(replica.model, {"features/text": features})


NUMBERS = np.array([[1.0, 20.0], [2.0, 40.0], [4.0, 90.0]], np.float32)
KINDS = np.array([[5], [7], [7]])
TEXTS = np.array([["cat dog cat"], ["dog"], ["語 cat"]], object)


def adapted(layer, data):
    layer.adapt(data)
    return layer, data


CASES = {
    "normalization": lambda: adapted(layers.Normalization(), NUMBERS),
    "one_mean": lambda: adapted(layers.Normalization(axis=None), NUMBERS),
    "inverse": lambda: adapted(layers.Normalization(invert=True), NUMBERS),
    "discretization": lambda: adapted(layers.Discretization(num_bins=3), NUMBERS),
    "integers": lambda: adapted(layers.IntegerLookup(), KINDS),
    "integers_multi_hot": lambda: adapted(layers.IntegerLookup(output_mode="multi_hot"), KINDS),
    "strings": lambda: adapted(layers.StringLookup(), TEXTS),
    "strings_masked": lambda: adapted(layers.StringLookup(mask_token="dog"), TEXTS),
    "strings_two_oov": lambda: adapted(layers.StringLookup(num_oov_indices=2), TEXTS),
    "text": lambda: adapted(layers.TextVectorization(), TEXTS),
    "ngrams": lambda: adapted(layers.TextVectorization(ngrams=2, max_tokens=5), TEXTS),
    "characters": lambda: adapted(layers.TextVectorization(split="character"), TEXTS),
    "tf_idf": lambda: adapted(layers.TextVectorization(output_mode="tf_idf", max_tokens=4), TEXTS),
    "counts": lambda: adapted(layers.TextVectorization(output_mode="count"), TEXTS),
    "given": lambda: (layers.StringLookup(vocabulary=["cat"]), TEXTS),
    "hashing": lambda: (layers.Hashing(num_bins=3), TEXTS),
    "encoding": lambda: (layers.CategoryEncoding(num_tokens=8, output_mode="multi_hot"), KINDS),
}


@cases("name", *CASES)
def test_adapted_state_of_a_layer_reaches_workers_and_files(name, tmp_path):
    layer, data = CASES[name]()
    kind = "string" if data.dtype == object else str(data.dtype)
    model = keras.Sequential([keras.Input(data.shape[1:], dtype=kind, name="x"), layer])
    expected = np.asarray(layer(keras.ops.convert_to_tensor(data)))
    definition = ModelDefinition.of(model)
    replica = make_replica(definition)
    state = ModelState.of(model, training=False)
    replica.state.write(state.read(updater=False))
    replica.state.write_extras(state.read_extras())
    columns = {"features/x": data}
    [found] = replica.predict(BatchLayout(replica.model, columns), columns)
    np.testing.assert_array_equal(found, expected)
    # What travels is left as it was, so the layer can be adapted and saved again.
    assert ModelDefinition.of(model).fingerprint == definition.fingerprint
    path = str(tmp_path / "model.keras")
    sw.save_model(model, path)
    loaded = sw.load_model(path)
    np.testing.assert_array_equal(np.asarray(loaded(keras.ops.convert_to_tensor(data))), expected)


def test_adapting_again_changes_the_definition():
    layer = layers.Normalization()
    layer.adapt(NUMBERS)
    model = keras.Sequential([keras.Input((2,)), layer])
    first = ModelDefinition.of(model)
    layer.adapt(NUMBERS * 2)
    second = ModelDefinition.of(model)
    assert first.fingerprint != second.fingerprint
    assert ModelState.of(model, training=False).averaged_size == 0


@cases(
    "kind, dtype, options",
    ("StringLookup", "string", {}),
    ("TextVectorization", "string", {}),
    ("Discretization", "float32", {"num_bins": 3}),
)
def test_layers_that_were_not_adapted_are_rejected(kind, dtype, options):
    layer = getattr(layers, kind)(**options)
    model = keras.Sequential([keras.Input((1,), dtype=dtype), layer])
    with pytest.raises(sw.ConfigurationError, match=r"must be adapted before .* not adapted"):
        ModelDefinition.of(model)
