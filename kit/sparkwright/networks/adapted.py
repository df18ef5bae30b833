"""What preprocessing layers have been adapted to, as part of a model's configuration.

Keras keeps vocabularies beside a model's configuration, and mean and variance among its weights. A
worker needs both before it compiles a step, and training changes neither: so they travel as if they
had been given to the layers' constructors.
"""

import contextlib
from collections.abc import Callable, Generator, Iterator
from typing import Any

from sparkwright.errors import ConfigurationError


def adapted_in_config(model: Any) -> contextlib.AbstractContextManager[None]:
    """For the block, have `get_config` of each adapted layer hold what it was adapted to.

    Raises:
        ConfigurationError: if a layer needs to be adapted and has not been.
    """
    return _with_arguments(model, _constructor_arguments)


def vocabularies_in_config(model: Any) -> contextlib.AbstractContextManager[None]:
    """For the block, have `get_config` hold the vocabularies that Keras' files would damage.

    Keras writes a token a line, but tokens may hold line ends, also those of Unicode.
    """
    return _with_arguments(model, _unwritable_vocabulary)


@contextlib.contextmanager
def _with_arguments(model: Any, find: Callable[[Any], dict[str, Any]]) -> Generator[None]:
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for layer in _layers(model):
            known = vars(layer)  # not `setattr`, by which Keras tracks lists
            changed = find(layer)
            before.append((known, {name: known[name] for name in changed}))
            known.update(changed)
        yield
    finally:
        for known, old in before:
            known.update(old)


def adapted_variables(model: Any) -> list[Any]:
    """The variables that a model's copies on workers lack: see `adapted_in_config`."""
    import keras

    found = [each for each in _layers(model) if isinstance(each, keras.layers.Normalization)]
    return [variable for layer in found for variable in layer.variables]


def lookup_of(layer: Any) -> Any:
    """The StringLookup inside a TextVectorization; any other layer itself."""
    return getattr(layer, "_lookup_layer", layer)


def _layers(model: Any) -> Iterator[Any]:
    found = {id(each): each for each in map(lookup_of, model._flatten_layers())}
    yield from found.values()


def _constructor_arguments(layer: Any) -> dict[str, Any]:
    """Attribute that holds an argument of the constructor -> what the layer was adapted to."""
    import keras

    kinds = keras.layers
    if isinstance(layer, kinds.StringLookup | kinds.IntegerLookup):
        if layer.input_vocabulary is None and not _tokens(layer):
            _refuse(layer)
        return _vocabulary(layer)
    if isinstance(layer, kinds.Normalization) and layer.input_mean is None and layer.built:
        mean, variance = layer.adapt_mean.numpy(), layer.adapt_variance.numpy()
        return {"input_mean": mean.tolist(), "input_variance": variance.tolist()}
    if isinstance(layer, kinds.Discretization) and layer.bin_boundaries is None:
        _refuse(layer)
    return {}


def _unwritable_vocabulary(layer: Any) -> dict[str, Any]:
    import keras

    if not isinstance(layer, keras.layers.StringLookup):
        return {}
    tokens = _tokens(layer)
    return {} if "\n".join(tokens).splitlines() == tokens else _vocabulary(layer)


def _tokens(layer: Any) -> list[Any]:
    return layer.get_vocabulary(include_special_tokens=False)


def _vocabulary(layer: Any) -> dict[str, Any]:
    if layer.input_vocabulary is not None:
        return {}
    convert = str if layer.vocabulary_dtype == "string" else int
    weighted = layer.output_mode == "tf_idf"
    # With weights also the tokens that stand for others, which have weights, too.
    tokens = layer.get_vocabulary(include_special_tokens=weighted)
    found: dict[str, Any] = {"input_vocabulary": [convert(token) for token in tokens]}
    if weighted:
        found["input_idf_weights"] = layer.idf_weights_const.numpy()[: len(tokens)].tolist()
    return found


def _refuse(layer: Any) -> None:
    raise ConfigurationError(
        "a preprocessing layer must be adapted before the network is trained or predicts. "
        f"Received: {type(layer).__name__} {layer.name!r}, not adapted. Call `sw.adapt(layer, "
        "data)`, or give the layer its vocabulary or bin boundaries."
    )
