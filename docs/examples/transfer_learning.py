"""Transfer learning: a trained network is the base of another one; trained without Spark.

python docs/examples/transfer_learning.py
"""

import keras
import numpy as np
from sklearn.datasets import load_digits

import sparkwright as sw


def digits(first):
    """Five digits from `first` on, labeled 0 to 4: training and test examples."""
    images, labels = load_digits(return_X_y=True)
    rows = (labels >= first) & (labels < first + 5)
    images = images[rows].reshape(-1, 8, 8, 1).astype(np.float32) / 16
    labels = labels[rows] - first
    return (images[250:], labels[250:]), (images[:250], labels[:250])


def on_top_of(base, **options):
    """A classifier of (8, 8, 1) images whose features are those of `base`."""
    image = keras.Input((8, 8, 1))
    x = keras.layers.Resizing(32, 32)(image)
    x = keras.layers.Concatenate()([x, x, x])  # gray values as RGB
    x = keras.layers.Rescaling(2.0, offset=-1.0)(x)  # 0…1 as -1…1, which MobileNet expects
    x = base(x, **options)
    return keras.Model(image, keras.layers.Dense(5, activation="softmax")(x))


def compile_model(model, learning_rate):
    """Compile again after each change of `trainable`: the optimizer's state depends on it."""
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])


def main(epochs=8):
    """Transfer from the digits 0 to 4 to the digits 5 to 9; return the accuracies."""
    keras.utils.set_random_seed(1)
    base = keras.applications.MobileNet(
        (32, 32, 3), alpha=0.25, weights=None, include_top=False, pooling="avg"
    )
    # Stands for `weights="imagenet"`, which Keras downloads: train the base on another task.
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9  # so few minibatches need it; the default is 0.99
    pretrained = on_top_of(base)
    compile_model(pretrained, learning_rate=3e-3)
    pretrained.fit(*digits(0)[0], epochs=epochs, batch_size=32, verbose=0)

    train, test = digits(5)
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
    base.trainable = False  # only the new last layer is trained, and averaged
    # BatchNormalization keeps its statistics with training=False, also while it is fine-tuned.
    model = on_top_of(base, training=False)
    compile_model(model, learning_rate=1e-2)
    found = {}
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        wrapper.fit(train, epochs=epochs)
        found["frozen base"] = model.evaluate(*test, verbose=0)[1]
        base.trainable = True  # now all of it, in smaller steps
        compile_model(model, learning_rate=2e-3)
        wrapper.fit(train, epochs=epochs)
        found["fine-tuned"] = model.evaluate(*test, verbose=0)[1]
    for name, accuracy in found.items():
        print(f"{name}: accuracy {accuracy:.3f}")
    return found


if __name__ == "__main__":
    main()
