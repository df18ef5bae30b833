"""Transfer learning: a trained network is the base of a network for another task.

python docs/examples/transfer_learning.py
"""

import keras

import sparkwright as sw


def digits(spark, wanted):
    """Training and test examples of some digits, labeled 0, 1, ... in the order of `wanted`."""
    data = sw.data.digits(spark).collect()
    labels = data.labels["labels"]
    rows = [row for row, label in enumerate(labels) if label in wanted]
    chosen = sw.data.from_arrays(
        spark, data.features["features"][rows], [wanted.index(labels[row]) for row in rows]
    )
    return chosen.random_split([0.7, 0.3], seed=7)


def on_top_of(base, classes):
    """A classifier of (28, 28, 1) images whose features are those of `base`."""
    image = keras.Input((28, 28, 1))
    x = keras.layers.ZeroPadding2D(2)(image)
    x = keras.layers.Concatenate()([x, x, x])  # gray values as RGB
    x = keras.layers.Rescaling(2.0, offset=-1.0)(x)  # 0…1 as -1…1, which MobileNet expects
    # training=False: BatchNormalization keeps its statistics, also while the base is fine-tuned.
    x = base(x) if base.trainable else base(x, training=False)
    return keras.Model(image, keras.layers.Dense(classes, activation="softmax")(x))


def compile_model(model, learning_rate):
    """Compile again after each change of `trainable`: the optimizer's state depends on it."""
    optimizer = keras.optimizers.Adam(learning_rate)
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])


def main(spark=None, epochs=8):
    """Train on the digits 0 to 4, then transfer to 5 to 9; return the accuracies."""
    spark = spark or sw.start_spark(workers=2)
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=32, seed=1)
    keras.utils.set_random_seed(1)

    # Stands for `weights="imagenet"`, which Keras downloads.
    base = keras.applications.MobileNet(
        (32, 32, 3), alpha=0.25, weights=None, include_top=False, pooling="avg"
    )
    for layer in base.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.9  # so few minibatches need it; the default is 0.99
    pretrained = on_top_of(base, classes=5)
    compile_model(pretrained, learning_rate=3e-3)
    train, test = digits(spark, [0, 1, 2, 3, 4])
    network = sw.SparkNetwork(spark, pretrained, master)
    network.fit(train, epochs=epochs)
    found = {"pretrained": network.evaluate(test).accuracy}

    base.trainable = False  # only the new last layer is trained, and averaged
    model = on_top_of(base, classes=5)
    compile_model(model, learning_rate=1e-2)
    train, test = digits(spark, [5, 6, 7, 8, 9])
    network = sw.SparkNetwork(spark, model, master)
    network.fit(train, epochs=epochs)
    found["frozen base"] = network.evaluate(test).accuracy

    base.trainable = True  # now all of it, in small steps
    compile_model(model, learning_rate=3e-4)
    network.fit(train, epochs=epochs)
    found["fine-tuned"] = network.evaluate(test).accuracy
    for name, accuracy in found.items():
        print(f"{name}: accuracy {accuracy:.3f}")
    return found


if __name__ == "__main__":
    main()
