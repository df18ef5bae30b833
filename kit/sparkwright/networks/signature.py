"""Names and shapes of a model's inputs and outputs."""

from typing import Any


def output_names(model: Any) -> list[str]:
    """The names of the model's outputs; a Sequential model's is its last layer's."""
    names = getattr(model, "output_names", None)
    return list(names) if names else [model.layers[-1].name]


def input_shapes(model: Any) -> dict[str, tuple[int | None, ...]]:
    """Input name -> shape of one example; None stands for any length."""
    return {tensor.name: tuple(tensor.shape[1:]) for tensor in model.inputs}


def output_types(model: Any) -> dict[str, tuple[str, tuple[int | None, ...]]]:
    """Output name -> (dtype, shape of one example)."""
    pairs = zip(output_names(model), model.outputs, strict=True)
    return {name: (str(tensor.dtype), tuple(tensor.shape[1:])) for name, tensor in pairs}
