"""What preprocessing layers have been adapted to, as part of a model's configuration.

Keras keeps vocabularies beside a model's configuration, and mean and variance among its weights. A
worker needs both before it compiles a step, and training changes neither: so they travel as if they
had been given to the layers' constructors.
"""

import contextlib
from collections.abc import Generator
from typing import Any

from sparkwright.errors import ConfigurationError


@contextlib.contextmanager
def adapted_in_config(model: Any) -> Generator[None]:
    """For the block, have `get_config` of each adapted layer hold what it was adapted to.

    Raises:
        ConfigurationError: if a layer needs to be adapted and has not been.
    """
    before: list[tuple[dict[str, Any], dict[str, Any]]] = []
    try:
        for layer in map(lookup_of, model._flatten_layers()):
            known = vars(layer)  # not `setattr`, by which Keras tracks lists
            changed = _constructor_arguments(layer)
            before.append((known, {name: known[name] for name in changed}))
            known.update(changed)
        yield
    finally:
        for known, old in reversed(before):
            known.update(old)


def adapted_variables(model: Any) -> list[Any]:
    """The variables that a model's copies on workers lack: see `adapted_in_config`."""
    import keras

    found = [
        each for each in model._flatten_layers() if isinstance(each, keras.layers.Normalization)
    ]
    return [variable for layer in found for variable in layer.variables]


def lookup_of(layer: Any) -> Any:
    """The StringLookup inside a TextVectorization; any other layer itself."""
    return getattr(layer, "_lookup_layer", layer)


def _constructor_arguments(layer: Any) -> dict[str, Any]:
    """Attribute that holds an argument of the constructor -> what the layer was adapted to."""
    import keras

    kinds, unknown = keras.layers, False
    found: dict[str, Any] = {}
    if isinstance(layer, kinds.StringLookup | kinds.IntegerLookup):
        weighted = layer.output_mode == "tf_idf"
        # With weights also the tokens that stand for others, which have weights, too.
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
            "a preprocessing layer must be adapted before the network is trained or predicts. "
            f"Received: {type(layer).__name__} {layer.name!r}, not adapted. Call `sw.adapt(layer, "
            "data)`, or give the layer its vocabulary or bin boundaries."
        )
    return found
