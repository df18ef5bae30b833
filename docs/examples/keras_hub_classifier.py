"""A text classifier with a backbone of KerasHub: a small BERT with random weights.

pip install keras-hub, on the executors, too; then python docs/examples/keras_hub_classifier.py
"""

import keras
import keras_hub
import numpy as np

import sparkwright as sw

LENGTH, VOCABULARY = 12, 50


def build():
    """A BERT with two layers, and a classifier on top of it.

    `BertBackbone.from_preset` would load trained weights. KerasHub's own tasks, such as
    BertTextClassifier, have a `compile` of their own: pass a function that builds one instead.
    """
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=VOCABULARY,
        num_layers=2,
        num_heads=2,
        hidden_dim=32,
        intermediate_dim=64,
        max_sequence_length=LENGTH,
        dropout=0.0,
    )
    kind = keras.layers.Dense(2, activation="softmax")(backbone.output["pooled_output"])
    model = keras.Model(backbone.input, kind)  # a dict of three inputs
    optimizer = keras.optimizers.Adam(2e-3)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def sentences(examples, seed):
    """Random tokens, of different lengths; the label says whether token 7 occurs."""
    random = np.random.default_rng(seed)
    tokens = random.integers(8, VOCABULARY, (examples, LENGTH), dtype=np.int32)
    mask = np.arange(LENGTH) < random.integers(4, LENGTH + 1, (examples, 1))
    labels = random.integers(0, 2, examples)
    tokens[labels == 1, random.integers(0, 4, int(labels.sum()))] = 7
    features = {
        "token_ids": np.where(mask, tokens, 0),
        "padding_mask": mask.astype(np.int32),
        "segment_ids": np.zeros_like(tokens),
    }
    return sw.DataSet(features, labels)


def main(epochs=4):
    """Train, evaluate; return the accuracy."""
    keras.utils.set_random_seed(1)
    model = build()
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=16, seed=1)
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        wrapper.fit(sentences(800, seed=2), epochs=epochs)
    test = sentences(200, seed=3)
    found = model.evaluate(test.features, test.labels["labels"], verbose=0, return_dict=True)
    print(f"accuracy: {found['accuracy']:.3f}, by chance 0.5")
    return found["accuracy"]


if __name__ == "__main__":
    main()
