"""An autoencoder: the labels are the features. Trained without Spark, by two processes.

python docs/examples/autoencoder.py
"""

import keras
import numpy as np
from sklearn.datasets import load_digits

import sparkwright as sw


def build(code=16):
    """An encoder of 64 gray values to `code` numbers, and a decoder back."""
    encoder = keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(code, name="code"),
        ],
        name="encoder",
    )
    decoder = keras.Sequential(
        [
            keras.Input((code,)),
            keras.layers.Dense(48, activation="relu"),
            keras.layers.Dense(64, activation="sigmoid"),
        ],
        name="decoder",
    )
    image = keras.Input((64,))
    model = keras.Model(image, decoder(encoder(image)), name="autoencoder")
    model.compile(keras.optimizers.Adam(3e-3), "mse")
    return model, encoder


def main(epochs=30):
    """Train; return the share of the images' variance that the code of 16 numbers explains."""
    keras.utils.set_random_seed(1)
    images = load_digits().data.astype(np.float32) / 16
    train, test = images[300:], images[:300]
    model, encoder = build()
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, seed=1)
    # Training changes `model` in place, and with it `encoder`, whose layers it shares.
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        run = wrapper.start((train, train), epochs=epochs, validation=(test, test))
        run.wait()
    for point in run.status.validation[::10]:
        print(f"epoch {point.epoch}: loss {point.loss:.4f}")

    error = float(np.square(model.predict(test, verbose=0) - test).mean())
    explained = 1 - error / float(test.var(axis=0).mean())
    codes = encoder.predict(test, verbose=0)
    print(f"{test.shape[1]} values as a code of {codes.shape[1]}: {explained:.1%} of the variance")
    return explained


if __name__ == "__main__":
    main()
