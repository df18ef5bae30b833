"""Networks to begin with, by task."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ._network_spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec, Task


class Preset(NamedTuple):
    """A network to begin with.

    Attributes:
        title: what it is, in a few words.
        task: what it is for.
        make: the network; every argument has a default, most take `input_shape` and `classes`.
    """

    title: str
    task: Task
    make: Callable[..., NetworkSpec]


def _layer(kind: str, name: str, *inputs: str, **options: Any) -> LayerSpec:
    return LayerSpec(kind=kind, name=name, inputs=inputs, options=options)


def _classes(layer: str) -> OutputSpec:
    return OutputSpec(layer=layer, loss="sparse_categorical_crossentropy", metrics=("accuracy",))


def lenet_spec(
    *, input_shape: tuple[int, ...] = (28, 28, 1), classes: int = 10, learning_rate: float = 1e-3
) -> NetworkSpec:
    """LeNet for small images, the network of `sparkwright.networks.lenet`."""
    return NetworkSpec(
        name="lenet",
        layers=(
            _layer("Input", "image", shape=list(input_shape)),
            _layer("Conv2D", "conv_1", filters=20, kernel_size=5, activation="relu"),
            _layer("MaxPooling2D", "pool_1"),
            _layer("Conv2D", "conv_2", filters=50, kernel_size=5, activation="relu"),
            _layer("MaxPooling2D", "pool_2"),
            _layer("Flatten", "flatten"),
            _layer("Dense", "dense", units=500, activation="relu"),
            _layer("Dense", "classes", units=classes, activation="softmax"),
        ),
        outputs=(_classes("classes"),),
        optimizer=OptimizerSpec(options={"learning_rate": learning_rate}),
    )


PRESETS: Mapping[str, Preset] = MappingProxyType(
    {
        "lenet": Preset(
            title="LeNet: small images, one class each", task="classification", make=lenet_spec
        ),
    }
)
