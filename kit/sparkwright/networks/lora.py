"""LoRA where Keras forgets it: within layers such as MultiHeadAttention, and in saved models."""

from collections.abc import Mapping
from typing import Any


def lora_ranks(model: Any) -> dict[str, list[float]]:
    """Rank and alpha of each layer with LoRA, by its number among all layers of `model`."""
    return {
        str(number): [layer.lora_rank, layer.lora_alpha]
        for number, layer in enumerate(model._flatten_layers())
        if getattr(layer, "lora_enabled", False)
    }


def restore_lora(model: Any, ranks: Mapping[str, list[float]]) -> None:
    """Enable LoRA where `ranks` of an equal model has it, and compile again if that adds any."""
    layers = list(model._flatten_layers())
    missing = [number for number in ranks if not layers[int(number)].lora_enabled]
    for number in missing:
        layers[int(number)].enable_lora(*ranks[number])
    compiled = model.get_compile_config() if missing else None
    if compiled is not None:  # the optimizer knows the variables that were to be trained before
        model.compile_from_config(compiled)


def restart_lora(model: Any) -> None:
    """Let LoRA learn after loading: Keras sets both matrices to 0, where they have no gradient."""
    import keras

    for layer in model._flatten_layers():
        if getattr(layer, "lora_enabled", False):
            name = "lora_kernel_a" if hasattr(layer, "lora_kernel_a") else "lora_embeddings_a"
            matrix = getattr(layer, name)
            if not matrix.numpy().any():  # the other one is 0 as well: outputs stay what they are
                matrix.assign(keras.initializers.HeUniform(seed=0)(matrix.shape))
