"""Check a whole network: outputs, losses, metrics and the optimizer."""

from collections.abc import Iterator, Sequence

from ._calls import keras_text, make, optimizer_call
from ._parts import AbstractNetworkSpec, OutputSpec
from ._rows import LayerAnalysis
from ._wiring import NAME_RULE, is_name
from .keras_catalog import layer_kind, optimizer_kind, optimizer_kinds, refusal
from .palette import group_of
from .training import PROBABILITIES, loss_kind, metric_kind

_KEEPS_RANGE = ("Dropout", "SpatialDropout1D", "SpatialDropout2D", "GaussianDropout", "Masking")
_METRICS_OF_COMPILE = ("accuracy", "acc", "crossentropy", "ce")
_ACTIVATIONS = {
    "Softmax": "softmax",
    "ReLU": "relu",
    **dict.fromkeys(("LeakyReLU", "ELU", "PReLU"), "elu"),
    **dict.fromkeys(("BatchNormalization", "LayerNormalization"), "linear"),
}


def training_problems(spec: AbstractNetworkSpec, rows: Sequence[LayerAnalysis]) -> Iterator[str]:
    """Yield one sentence for each problem, the most basic first."""
    if not any(row.enabled for row in rows):
        yield "The network has no layers. Add an Input first."
        return
    if not is_name(spec.name):
        yield f"The network's name {spec.name!r} {NAME_RULE}"
    if not spec.outputs:
        yield "The network has no output. Choose the layer to train."
    names = [output.layer for output in spec.outputs]
    for place, name in enumerate(names):
        layer = spec.layer(name)
        if layer is None:
            yield f"The output {name!r} is not a layer of the network. Choose one of its layers."
        elif not layer.enabled:
            yield f"The output {name!r} is switched off. Switch it on, or choose another layer."
        elif layer.kind == "Input":
            yield f"The output {name!r} is an Input, which learns nothing. Choose another layer."
        if name in names[:place]:
            yield f"The output {name!r} is listed twice. Remove one of them."
    taken = {name for row in rows if row.enabled for name in row.inputs}
    for row in rows:
        if row.enabled and row.name not in taken and row.name not in names:
            yield (
                f"No layer uses the output of row {row.index + 1} ({row.name}). "
                "Connect it, make it an output, or switch it off."
            )
    for output in spec.outputs:
        yield from _loss_problems(spec, output, rows)
    yield from _optimizer_problems(spec)


def _loss_problems(
    spec: AbstractNetworkSpec, output: OutputSpec, rows: Sequence[LayerAnalysis]
) -> Iterator[str]:
    if wrong := refusal("losses", output.loss):
        yield f"The loss {output.loss!r} of the output {output.layer!r}: {keras_text(wrong)}"
        return
    loss = loss_kind(output.loss)
    for name in output.metrics:
        metric = metric_kind(name)
        if name not in _METRICS_OF_COMPILE and (wrong := refusal("metrics", name)):
            yield f"The metric {name!r} of the output {output.layer!r}: {keras_text(wrong)}"
        elif loss is not None and metric is not None and loss.labels not in metric.labels:
            yield (
                f"The metric {name} needs labels that are {' or '.join(metric.labels)}. With the "
                f"loss {output.loss}, labels are {loss.labels}. Choose another metric."
            )
    row = next((row for row in rows if row.name == output.layer and row.enabled), None)
    if loss is None or row is None or row.output_shape is None:
        return
    units = row.output_shape[-1] if row.output_shape else None
    if (units or loss.least_outputs) < loss.least_outputs:
        yield (
            f"The loss {output.loss} needs one output per class, at least "
            f"{loss.least_outputs}. {output.layer!r} has {units}. "
            "Give it more units, or choose binary_crossentropy."
        )
        return
    activation = last_activation(spec, output.layer, rows)
    if loss.activations and activation is not None and activation not in loss.activations:
        wanted, choices = "other values", loss.activations
        if loss.activations == PROBABILITIES:
            wanted = "probabilities"
            choices = ("softmax",) if loss.least_outputs > 1 else ("sigmoid",)
        yield (
            f"The loss {output.loss} expects {wanted}, but the output {output.layer!r} has the "
            f"activation {activation}. Use {' or '.join(choices)}."
        )


def last_activation(
    spec: AbstractNetworkSpec, name: str, rows: Sequence[LayerAnalysis]
) -> str | None:
    """Return the activation that determines the range of a layer's output; None if unknown."""
    # Layers that keep the range, such as pooling and dropout, are skipped.
    by_name = {row.name: row for row in reversed(rows)}
    row = by_name[name]
    while len(row.inputs) == 1 and (
        row.kind in _KEEPS_RANGE or group_of(row.kind) in ("pooling", "reshaping")
    ):
        row = by_name[row.inputs[0]]
    kind = layer_kind(row.kind)
    option = None if kind is None else kind.option("activation")
    if row.kind in _ACTIVATIONS or option is None:
        return _ACTIVATIONS.get(row.kind)
    return spec.layers[row.index].options.get("activation", option.default)


def _optimizer_problems(spec: AbstractNetworkSpec) -> Iterator[str]:
    name = spec.optimizer.kind
    kind = optimizer_kind(name)
    if kind is None:
        names = ", ".join(known.name for known in optimizer_kinds())
        yield f"The optimizer {name!r} is unknown. Choose one of: {names}."
        return
    try:
        make(optimizer_call(spec.optimizer))
    except Exception as error:  # raised by Keras or a custom optimizer
        yield f"The optimizer {name}: {keras_text(error)}"
