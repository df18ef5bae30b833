"""LoRA within layers that do not mention it in their configuration, such as MultiHeadAttention."""

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
