"""Include the state of adapted preprocessing layers in a model's configuration.

Keras stores vocabularies outside a model's configuration, and mean and variance among its weights.
A worker needs both before it compiles a step, and training changes neither. They are therefore
sent as if they had been passed to the layers' constructors.
"""

import contextlib
from collections.abc import Generator
from typing import Any

from sparkwright.errors import ConfigurationError


@contextlib.contextmanager
def adapted_in_config(model: Any) -> Generator[None]:
    """Add its adapted state to the `get_config` of each layer, inside a `with` block."""
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for layer in map(lookup_of, model._flatten_layers()):
            known = vars(layer)  # `setattr` would make Keras track lists
            changed = _constructor_arguments(layer)
            before.append((known, {name: known[name] for name in changed}))
            known.update(changed)
        yield
    finally:
        for known, old in reversed(before):
            known.update(old)


def adapted_variables(model: Any) -> list[Any]:
    """Return the variables of Normalization layers."""
    # A worker's copy of the model lacks them: it receives their values in its configuration.
    import keras

    found = [
        each for each in model._flatten_layers() if isinstance(each, keras.layers.Normalization)
    ]
    return [variable for layer in found for variable in layer.variables]


def lookup_of(layer: Any) -> Any:
    """Return the StringLookup of a TextVectorization, or `layer` if it is another layer."""
    return getattr(layer, "_lookup_layer", layer)


def _constructor_arguments(layer: Any) -> dict[str, Any]:
    """Map attributes that hold constructor arguments to the adapted values."""
    import keras

    kinds, unknown = keras.layers, False
    found: dict[str, Any] = {}
    if isinstance(layer, kinds.StringLookup | kinds.IntegerLookup):
        weighted = layer.output_mode == "tf_idf"
        # Special tokens, such as "[UNK]", have weights as well.
        tokens = layer.get_vocabulary(include_special_tokens=weighted)
        unknown = not layer.get_vocabulary(include_special_tokens=False)
        if layer.input_vocabulary is None and not unknown:
            convert = str if layer.vocabulary_dtype == "string" else int
            found["input_vocabulary"] = list(map(convert, tokens))
            if weighted:
                weights = layer.idf_weights_const.numpy()[: len(tokens)]
                found["input_idf_weights"] = weights.tolist()
    elif isinstance(layer, kinds.Normalization) and layer.input_mean is None and layer.built:
        found["input_mean"] = layer.adapt_mean.numpy().tolist()
        found["input_variance"] = layer.adapt_variance.numpy().tolist()
    elif isinstance(layer, kinds.Discretization):
        unknown = layer.bin_boundaries is None
    if unknown:
        raise ConfigurationError(
            "a preprocessing layer must be adapted before training or prediction. "
            f"Received: {type(layer).__name__} {layer.name!r}, not adapted. Call `sw.adapt(layer, "
            "data)`, or pass a vocabulary or bin boundaries to the layer."
        )
    return found
