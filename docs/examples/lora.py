"""LoRA: fine-tune a trained network by small matrices; the rest is frozen and not averaged.

python docs/examples/lora.py
"""

import keras
import numpy as np

import sparkwright as sw
from sparkwright.networks import ModelState

LENGTH, VOCABULARY = 12, 200


def sentences(kinds, seed, examples=1_600):
    """Random token numbers; the label is the kind of most of them, by the table `kinds`."""
    tokens = np.random.default_rng(seed).integers(0, VOCABULARY, (examples, LENGTH), dtype=np.int32)
    return tokens, (kinds[tokens].mean(axis=1) > 0.5).astype(np.int32)


def build(width=64):
    """A classifier of token sequences."""
    return keras.Sequential(
        [
            keras.Input((LENGTH,), dtype="int32"),
            keras.layers.Embedding(VOCABULARY, width),
            keras.layers.EinsumDense("btc,cd->btd", (None, width), bias_axes="d"),
            keras.layers.Activation("relu"),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dense(1, activation="sigmoid"),
        ]
    )


def train(model, master, data, epochs, learning_rate):
    """Compile and train; print how many bytes each averaging sends."""
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        wrapper.fit(data, epochs=epochs)
    return 4 * ModelState.of(model).averaged_size


def main(epochs=8):
    """Train on one task, adapt to a related one; return accuracies and bytes."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    kinds = random.integers(0, 2, VOCABULARY)
    changed = np.where(random.random(VOCABULARY) < 0.3, 1 - kinds, kinds)  # the related task
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, updater="reset", seed=1)
    model = build()
    sizes = {"all": train(model, master, sentences(kinds, 2), epochs, 3e-3)}
    test = sentences(changed, 3)
    accuracies = {"before": model.evaluate(*test, verbose=0)[1]}

    for layer in model.layers:
        if hasattr(layer, "enable_lora"):
            layer.enable_lora(rank=4)
    model.layers[-1].trainable = False
    sizes["LoRA"] = train(model, master, sentences(changed, 4), epochs, 1e-2)
    accuracies["after"] = model.evaluate(*test, verbose=0)[1]
    for name, size in sizes.items():
        print(f"{name}: an averaging sends {size:,} bytes")
    for name, accuracy in accuracies.items():
        print(f"accuracy on the related task {name} fine-tuning: {accuracy:.3f}")
    return {**accuracies, "bytes": sizes}


if __name__ == "__main__":
    main()
