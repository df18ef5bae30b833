"""Rows for any Keras model, so that it can be looked at; never raises."""

from collections.abc import Iterator
from typing import Any

from ._analysis import LayerAnalysis, NetworkAnalysis
from ._keras_layers import layers_of, sources_of
from ._shapes import Shape


def view_model(model: Any) -> NetworkAnalysis:
    """The layers of a model with shapes, parameters and connections, as far as Keras knows them.

    Also of models with layers of one's own, models within models, and subclassed ones; what cannot
    be found out is None. The layers of a model within the model are one row.

    Args:
        model: a `keras.Model`.
    """
    try:
        sources = sources_of(model)
    except Exception:  # Keras' own attributes: what they lack is not shown
        sources = {}
    try:
        layers = layers_of(model)
    except Exception:
        layers = []
    rows = tuple(_row(index, layer, sources) for index, layer in enumerate(layers))
    problems = () if rows else ("Keras tells no layers of this model.",)
    unbuilt = any(row.parameters is None for row in rows)
    if rows and unbuilt:
        problems = ("Some layers are not built: train or call the model once to see shapes.",)
    return NetworkAnalysis(rows=rows, problems=problems)


def _row(index: int, layer: Any, sources: dict[str, list[list[str]]]) -> LayerAnalysis:
    uses = sources.get(str(layer.name), [])
    shape, dtype = _output(layer)
    return LayerAnalysis(
        index=index,
        name=str(layer.name),
        kind="Input" if type(layer).__name__ == "InputLayer" else type(layer).__name__,
        inputs=tuple(dict.fromkeys(name for use in uses for name in use)),
        input_shapes=tuple(_input_shapes(layer)),
        output_shape=shape,
        output_dtype=dtype,
        parameters=_count(layer, "weights"),
        trainable_parameters=_count(layer, "trainable_weights"),
    )


def _output(layer: Any) -> tuple[Shape | None, str | None]:
    try:
        output = layer.output
        first = output[0] if isinstance(output, list | tuple) else output
        if isinstance(output, dict):
            first = next(iter(output.values()))
        return tuple(first.shape[1:]), str(first.dtype)
    except Exception:  # not connected, or called several times
        return None, None


def _input_shapes(layer: Any) -> Iterator[Shape]:
    try:
        given = layer.input
        tensors = list(given) if isinstance(given, list | tuple) else [given]
        shapes = [tuple(tensor.shape[1:]) for tensor in tensors]
    except Exception:
        return
    yield from shapes


def _count(layer: Any, which: str) -> int | None:
    try:
        if not layer.built:
            return None
        return sum(_product(weight.shape) for weight in getattr(layer, which))
    except Exception:
        return None


def _product(shape: Any) -> int:
    size = 1
    for length in shape:
        size *= int(length)
    return size
