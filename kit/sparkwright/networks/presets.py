"""Preset networks, as starting points."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from .signature import Shape
from .spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec
from .training import Task


class Preset(NamedTuple):
    """A preset network.

    Attributes:
        title: short description for display.
        task: task of the network.
        make: function that creates the network. All arguments have defaults; most presets take
            `input_shape` and `classes`.
    """

    title: str
    task: Task
    make: Callable[..., NetworkSpec]


_CROSS_ENTROPY: dict[str, Any] = {
    "loss": "sparse_categorical_crossentropy",
    "metrics": ("accuracy",),
}
_SQUARED_ERROR: dict[str, Any] = {"loss": "mean_squared_error", "metrics": ("mean_absolute_error",)}


def _layer(kind: str, name: str, *inputs: str, **options: Any) -> LayerSpec:
    return LayerSpec(kind=kind, name=name, inputs=inputs, options=options)


def _input(name: str, shape: Shape, **options: Any) -> LayerSpec:
    return _layer("Input", name, shape=list(shape), **options)


def _relu(name: str, units: int) -> LayerSpec:
    return _layer("Dense", name, units=units, activation="relu")


def _classifier(name: str, classes: int, *layers: LayerSpec, **fields: Any) -> NetworkSpec:
    """Return a network of `layers` and a softmax layer with `classes` units."""
    last = _layer("Dense", "classes", units=classes, activation="softmax")
    output = OutputSpec(layer="classes", **_CROSS_ENTROPY)
    return NetworkSpec(name=name, layers=(*layers, last), outputs=(output,), **fields)


def lenet_spec(
    *,
    input_shape: Shape = (28, 28, 1),
    classes: int = 10,
    learning_rate: float = 1e-3,
    seed: int = 42,
) -> NetworkSpec:
    """Return LeNet for small images; see `lenet`."""
    options = {} if learning_rate == 1e-3 else {"learning_rate": learning_rate}
    return _classifier(
        "lenet",
        classes,
        _input("image", input_shape),
        _layer("Conv2D", "conv_1", filters=20, kernel_size=5, activation="relu"),
        _layer("MaxPooling2D", "pool_1"),
        _layer("Conv2D", "conv_2", filters=50, kernel_size=5, activation="relu"),
        _layer("MaxPooling2D", "pool_2"),
        _layer("Flatten", "flatten"),
        _relu("dense", 500),
        optimizer=OptimizerSpec(options=options),
        seed=seed,
    )


def mlp_spec(*, input_shape: Shape = (20,), classes: int = 3) -> NetworkSpec:
    """Return two dense layers that classify the rows of a table."""
    return _classifier(
        "mlp",
        classes,
        _input("columns", input_shape),
        _relu("dense_1", 64),
        _layer("Dropout", "dropout", rate=0.2),
        _relu("dense_2", 32),
    )


def regression_spec(*, input_shape: Shape = (20,), values: int = 1) -> NetworkSpec:
    """Return two dense layers that predict numbers from the rows of a table."""
    return NetworkSpec(
        name="regression",
        task="regression",
        layers=(
            _input("columns", input_shape),
            _relu("dense_1", 64),
            _relu("dense_2", 32),
            _layer("Dense", "values", units=values),
        ),
        outputs=(OutputSpec(layer="values", **_SQUARED_ERROR),),
    )


def residual_cnn_spec(*, input_shape: Shape = (32, 32, 3), classes: int = 10) -> NetworkSpec:
    """Return a residual network of two blocks for small images.

    References:
        K. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.
    """
    return _classifier(
        "residual_cnn",
        classes,
        _input("image", input_shape),
        _convolution("stem", filters=16),
        _layer("BatchNormalization", "stem_norm"),
        _layer("Activation", "stem_relu", activation="relu"),
        *_block("block_1", "stem_relu", filters=16),
        *_block("block_2", "block_1_relu", filters=32, strides=2),
        _layer("GlobalAveragePooling2D", "pool"),
    )


def _convolution(name: str, *inputs: str, size: int = 3, **options: Any) -> LayerSpec:
    # No bias: the batch normalization that follows has one.
    usual = {"padding": "same", "use_bias": False, "kernel_initializer": "he_normal"}
    return _layer("Conv2D", name, *inputs, kernel_size=size, **usual, **options)


def _block(name: str, source: str, *, filters: int, **strides: int) -> list[LayerSpec]:
    return [
        _convolution(f"{name}_conv_1", filters=filters, **strides),
        _layer("BatchNormalization", f"{name}_norm_1"),
        _layer("Activation", f"{name}_relu_1", activation="relu"),
        _convolution(f"{name}_conv_2", filters=filters),
        _layer("BatchNormalization", f"{name}_norm_2"),
        _convolution(f"{name}_shortcut", source, filters=filters, size=1, **strides),
        _layer("Add", f"{name}_add", f"{name}_norm_2", f"{name}_shortcut"),
        _layer("Activation", f"{name}_relu", activation="relu"),
    ]


def lstm_spec(*, input_shape: Shape = (60, 3), classes: int = 6) -> NetworkSpec:
    """Return an LSTM that classifies sequences."""
    layers = (_layer("Masking", "masking"), _layer("LSTM", "lstm", units=64))
    return _classifier("lstm", classes, _input("sequence", input_shape), *layers)


def text_spec(*, input_shape: Shape = (100,), classes: int = 2, words: int = 10_000) -> NetworkSpec:
    """Return a network that classifies short texts by the mean of their word embeddings."""
    return _classifier(
        "text",
        classes,
        _input("words", input_shape, dtype="int32"),
        _layer("Embedding", "vectors", input_dim=words, output_dim=32, mask_zero=True),
        _layer("GlobalAveragePooling1D", "mean"),
        _relu("dense", 32),
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "lenet": Preset("LeNet: small images, one class each", "classification", lenet_spec),
        "residual_cnn": Preset("Residual network: images", "classification", residual_cnn_spec),
        "mlp": Preset("Dense layers: tables, one class each", "classification", mlp_spec),
        "regression": Preset("Dense layers: tables, numbers", "regression", regression_spec),
        "lstm": Preset("LSTM: sequences, one class each", "classification", lstm_spec),
        "text": Preset("Word embeddings: short texts", "classification", text_spec),
    }
)


def lenet(
    *,
    input_shape: tuple[int, int, int] = (28, 28, 1),
    classes: int = 10,
    learning_rate: float = 1e-3,
    seed: int = 42,
) -> Any:
    """Build and compile LeNet: two 5 x 5 convolutions with pooling, a dense layer, a softmax.

    With the default input shape, it has 431,080 parameters.

    Args:
        input_shape: (height, width, channels) of one image, at least 14 x 14 pixels; default
            (28, 28, 1).
        classes: number of classes; labels are integers from 0 to `classes - 1`; default 10.
        learning_rate: Adam's learning rate; default 1e-3.
        seed: seed of the initial weights; default 42.

    Returns:
        A compiled `keras.Model` (Adam, sparse categorical cross-entropy, accuracy).

    References:
        Y. LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proc. IEEE 1998.
    """
    return lenet_spec(
        input_shape=input_shape, classes=classes, learning_rate=learning_rate, seed=seed
    ).build()
