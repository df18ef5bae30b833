"""What Keras forgets of LoRA and of frozen variables when it builds a model again or loads one."""

from collections.abc import Mapping
from typing import Any


def lora_layers(model: Any) -> dict[int, Any]:
    """The layers in which LoRA is enabled, by number."""
    layers = enumerate(model._flatten_layers())
    return {number: x for number, x in layers if getattr(x, "lora_enabled", False)}


def frozen_parts(model: Any) -> dict[str, Any]:
    """JSON-able, for `freeze_parts`: LoRA, layers and weights by number; {} if nothing is frozen.

    The configuration of a layer tells nothing of the layers within it.
    """
    layers = list(model._flatten_layers())
    if all(v.trainable for layer in layers for v in layer._trainable_variables):
        return {}
    return {
        "lora": [(n, x.lora_rank, x.lora_alpha) for n, x in lora_layers(model).items()],
        "layers": [number for number, layer in enumerate(layers) if not layer.trainable],
        "weights": [number for number, v in enumerate(model.weights) if not v.trainable],
    }


def freeze_parts(model: Any, parts: Mapping[str, Any]) -> None:
    """Bring a model that was built again to the `frozen_parts` of the first one."""
    if not parts:
        return
    layers, trained = list(model._flatten_layers()), len(model.trainable_variables)
    for number, rank, alpha in parts["lora"]:
        if not layers[number].lora_enabled:
            layers[number].enable_lora(rank, alpha)
    frozen = {group: set(parts[group]) for group in ("layers", "weights")}
    for group, things in (("layers", layers), ("weights", model.weights)):
        for number, thing in enumerate(things):
            if thing.trainable == (number in frozen[group]):
                thing.trainable = number not in frozen[group]
    compiled = model.get_compile_config()
    if compiled is not None and len(model.trainable_variables) != trained:
        model.compile_from_config(compiled)  # the optimizer has state for other variables


def restart_lora(model: Any) -> None:
    """Let LoRA learn after loading: Keras sets both matrices to 0, where they have no gradient."""
    import keras

    for layer in lora_layers(model).values():
        name = "lora_kernel_a" if hasattr(layer, "lora_kernel_a") else "lora_embeddings_a"
        matrix = getattr(layer, name)
        if not matrix.numpy().any():  # the other one is 0 as well: outputs stay what they are
            matrix.assign(keras.initializers.HeUniform(seed=0)(matrix.shape))
