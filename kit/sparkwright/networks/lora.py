"""Restore LoRA and frozen variables, which Keras loses when it rebuilds or loads a model."""

from collections.abc import Mapping
from typing import Any


def lora_layers(model: Any) -> dict[int, Any]:
    """Return the layers in which LoRA is enabled, by index."""
    layers = enumerate(model._flatten_layers())
    return {number: x for number, x in layers if getattr(x, "lora_enabled", False)}


def frozen_parts(model: Any) -> dict[str, Any]:
    """Return the indices of LoRA layers, frozen layers and frozen weights; {} if there are none."""
    # The result is JSON-serializable; pass it to `freeze_parts`. It is needed because the
    # configuration of a layer does not hold whether its inner layers are frozen.
    layers = list(model._flatten_layers())
    if all(v.trainable for layer in layers for v in layer._trainable_variables):
        return {}
    return {
        "lora": [(n, x.lora_rank, x.lora_alpha) for n, x in lora_layers(model).items()],
        "layers": [number for number, layer in enumerate(layers) if not layer.trainable],
        "weights": [number for number, v in enumerate(model.weights) if not v.trainable],
    }


def freeze_parts(model: Any, parts: Mapping[str, Any]) -> None:
    """Apply the `frozen_parts` of the original model to a rebuilt one."""
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
        model.compile_from_config(compiled)  # the optimizer was built for other variables


def restart_lora(model: Any) -> None:
    """Initialize LoRA after loading: Keras sets both matrices to 0, where gradients vanish."""
    import keras

    for layer in lora_layers(model).values():
        name = "lora_kernel_a" if hasattr(layer, "lora_kernel_a") else "lora_embeddings_a"
        matrix = getattr(layer, name)
        if not matrix.numpy().any():  # the other matrix is 0 as well, so outputs do not change
            matrix.assign(keras.initializers.HeUniform(seed=0)(matrix.shape))
