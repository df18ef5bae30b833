"""Trains a GAN on points of a noisy circle: two networks, two optimizers, one `train_step`.

python gan.py [--epochs 60] [--workers 2]
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import sparkwright as sw


class Gan(keras.Model):
    """A generator of points, and a discriminator that tells real points from made ones."""

    def __init__(self, latent=4):
        """Make both networks."""
        super().__init__()
        self.latent = latent
        layers = keras.layers
        self.generator = keras.Sequential(
            [
                keras.Input((latent,)),
                layers.Dense(32, "relu"),
                layers.Dense(32, "relu"),
                layers.Dense(2),
            ]
        )
        self.discriminator = keras.Sequential(
            [keras.Input((2,)), layers.Dense(32, "relu"), layers.Dense(32, "relu"), layers.Dense(1)]
        )
        self.seeds = keras.random.SeedGenerator(7)  # each worker gets random numbers of its own
        self.d_loss, self.g_loss = keras.metrics.Mean("d_loss"), keras.metrics.Mean("g_loss")

    def compile(self, d_optimizer, g_optimizer):
        """Keep an optimizer for each network."""
        super().compile()
        self.d_optimizer, self.g_optimizer = d_optimizer, g_optimizer
        self.entropy = keras.losses.BinaryCrossentropy(from_logits=True)

    @property
    def metrics(self):
        """Keras resets these in each epoch."""
        return [self.d_loss, self.g_loss]

    def train_step(self, real):
        """Train the discriminator, then the generator, with (n, 2) real points."""
        shape = (tf.shape(real)[0], self.latent)
        ones, zeros = tf.ones_like(real[:, :1]), tf.zeros_like(real[:, :1])
        with tf.GradientTape() as tape:
            made = self.generator(keras.random.normal(shape, seed=self.seeds))
            loss = self.entropy(ones, self.discriminator(real))
            loss += self.entropy(zeros, self.discriminator(made))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply(tape.gradient(loss, weights), weights)
        self.d_loss.update_state(loss)
        with tf.GradientTape() as tape:
            made = self.generator(keras.random.normal(shape, seed=self.seeds))
            loss = self.entropy(ones, self.discriminator(made))
        weights = self.generator.trainable_weights
        self.g_optimizer.apply(tape.gradient(loss, weights), weights)
        self.g_loss.update_state(loss)
        return {"d_loss": self.d_loss.result(), "g_loss": self.g_loss.result()}


def build():
    """A compiled model; the workers call this function, too."""
    model = Gan()
    adam = keras.optimizers.Adam
    model.compile(adam(1e-3, beta_1=0.5), adam(1e-3, beta_1=0.5))
    return model


def circle(count):
    """(count, 2) points about a circle of radius 1."""
    random = np.random.default_rng(0)
    angles = random.uniform(0, 2 * np.pi, count)
    points = np.stack([np.cos(angles), np.sin(angles)], 1) + random.normal(0, 0.05, (count, 2))
    return points.astype(np.float32)


def main():
    """Train with processes of this machine; `SparkNetwork(spark, build, master)` does on Spark."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()

    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
    with sw.ParallelWrapper(build, master, workers=options.workers) as wrapper:
        model = wrapper.fit(sw.DataSet(circle(2000)), epochs=options.epochs).model
    noise = np.random.default_rng(1).normal(size=(500, model.latent))
    made = model.generator.predict(noise, verbose=0)
    radius = np.linalg.norm(made, axis=1)
    print(f"distance from the center: {radius.mean():.2f} on average, {radius.std():.2f} of spread")
    return radius


if __name__ == "__main__":
    main()
