"""A small transformer learns to reverse sequences; trained by gradient sharing.

python docs/examples/transformer.py
"""

import keras
import numpy as np

import sparkwright as sw

LENGTH, VOCABULARY = 10, 12


class PositionEmbedding(keras.layers.Layer):
    """Adds a trained vector to each step: attention alone ignores the order of the steps."""

    def build(self, shape):
        """One vector per step."""
        self.vectors = self.add_weight(shape=shape[1:], initializer="random_normal", name="vectors")

    def call(self, inputs):
        """Computed on the executors, to which the class is sent."""
        return inputs + self.vectors


def block(x, heads, width):
    """Attention, then two dense layers, each with a residual connection and normalization."""
    attention = keras.layers.MultiHeadAttention(heads, key_dim=width // heads)(x, x)
    x = keras.layers.LayerNormalization()(x + attention)
    dense = keras.layers.Dense(2 * width, activation="gelu")(x)
    dense = keras.layers.Dense(width)(dense)
    return keras.layers.LayerNormalization()(x + dense)


def build(blocks=1, width=32):
    """(LENGTH,) token numbers to (LENGTH, VOCABULARY) probabilities."""
    tokens = keras.Input((LENGTH,), dtype="int32")
    x = keras.layers.Embedding(VOCABULARY, width)(tokens)
    x = PositionEmbedding()(x)
    for _ in range(blocks):
        x = block(x, heads=2, width=width)
    model = keras.Model(tokens, keras.layers.Dense(VOCABULARY, activation="softmax")(x))
    model.compile(
        keras.optimizers.Adam(3e-3), "sparse_categorical_crossentropy", metrics=["accuracy"]
    )
    return model


def main(spark=None, epochs=6):
    """Train, evaluate, predict; return the share of right tokens."""
    spark = spark or sw.start_spark(workers=2)
    keras.utils.set_random_seed(1)
    tokens = np.random.default_rng(1).integers(0, VOCABULARY, (2_400, LENGTH), dtype=np.int32)
    data = sw.data.from_arrays(spark, tokens, tokens[:, ::-1])  # a label for each step
    train, test = data.random_split([0.8, 0.2], seed=7)

    master = sw.SharedTrainingMaster(
        workers=2,
        batch_size_per_worker=32,
        threshold=sw.AdaptiveThreshold(initial=3e-3, max_sparsity=0.05),
        seed=1,
    )
    network = sw.SparkNetwork(spark, build(), master)
    run = network.start(train, epochs=epochs, validation=test)
    run.wait()
    for point in run.status.validation:
        print(f"epoch {point.epoch}: test accuracy {point.metrics['accuracy']:.3f}")

    example = tokens[:1]
    print(f"{example[0]} is predicted as {network.predict(example).argmax(axis=-1)[0]}")
    accuracy = network.evaluate(test).accuracy
    print(f"accuracy: {accuracy:.3f}, by chance {1 / VOCABULARY:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
