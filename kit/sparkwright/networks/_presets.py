"""Ready-made networks: plain, compiled Keras models."""

from typing import Any


def lenet(
    *,
    input_shape: tuple[int, int, int] = (28, 28, 1),
    classes: int = 10,
    learning_rate: float = 1e-3,
    seed: int = 42,
) -> Any:
    """LeNet: two 5x5 convolutions with pooling, a dense layer, a softmax.

    With the default shape it has 431,080 parameters.

    Args:
        input_shape: (height, width, channels) of one image, each at least 14 pixels.
        classes: number of classes; labels are integers from 0 to `classes - 1`.
        learning_rate: Adam's learning rate; default 1e-3.
        seed: seeds the initial weights; default 42.

    Returns:
        A compiled `keras.Model` (Adam, sparse categorical cross-entropy, accuracy).

    References:
        Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proc. IEEE 1998.
    """
    import keras

    seeds = iter(range(seed, seed + 4))

    def init() -> Any:
        return keras.initializers.GlorotUniform(seed=next(seeds))

    model = keras.Sequential(
        [
            keras.Input(shape=input_shape),
            keras.layers.Conv2D(20, 5, activation="relu", kernel_initializer=init()),
            keras.layers.MaxPooling2D(),
            keras.layers.Conv2D(50, 5, activation="relu", kernel_initializer=init()),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(500, activation="relu", kernel_initializer=init()),
            keras.layers.Dense(classes, activation="softmax", kernel_initializer=init()),
        ],
        name="lenet",
    )
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    return model
