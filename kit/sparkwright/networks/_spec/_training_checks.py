"""What is wrong with a network as a whole: outputs, losses, metrics, the optimizer."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError

from ._losses import PROBABILITIES, LossKind
from ._names import NAME_RULE, is_name
from ._network_spec import NetworkSpec, OptimizerSpec, OutputSpec
from ._optimizers import OPTIMIZERS
from ._shapes import shape_text
from ._training_names import loss_kind, metric_kind
from ._wiring import Wire

if TYPE_CHECKING:
    from ._analysis import LayerAnalysis

_KEEPS_RANGE = {
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "GaussianDropout", "Flatten", "Reshape"),
    *("Permute", "RepeatVector", "MaxPooling1D", "MaxPooling2D", "AveragePooling1D"),
    *("AveragePooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling1D"),
    *("GlobalAveragePooling2D", "Masking", "Cropping1D", "Cropping2D"),
}
_NAMED = {"Softmax": "softmax", "BatchNormalization": "linear", "LayerNormalization": "linear"}


def training_problems(
    spec: NetworkSpec, rows: Sequence["LayerAnalysis"], wires: Sequence[Wire]
) -> tuple[str, ...]:
    """One sentence for each problem, the most basic first."""
    if not any(layer.enabled for layer in spec.layers):
        return ("The network has no layers. Add an Input first.",)
    return tuple(
        [
            *([] if is_name(spec.name) else [f"The network's name {spec.name!r} {NAME_RULE}"]),
            *_output_problems(spec),
            *_unused(spec, wires),
            *(
                problem
                for output in spec.outputs
                for problem in _loss_problems(spec, output, rows, wires)
            ),
            *_optimizer_problems(spec.optimizer),
        ]
    )


def _output_problems(spec: NetworkSpec) -> Iterator[str]:
    if not spec.outputs:
        yield "The network has no output. Choose the layer whose output is trained."
    seen: set[str] = set()
    for output in spec.outputs:
        layer = spec.layer(output.layer)
        if layer is None:
            yield f"The output {output.layer!r} is no layer of the network."
        elif not layer.enabled:
            yield f"The output {output.layer!r} is switched off."
        elif layer.kind == "Input":
            yield f"The output {output.layer!r} is an Input: nothing would be learnt."
        if output.layer in seen:
            yield f"The output {output.layer!r} is named twice."
        seen.add(output.layer)


def _unused(spec: NetworkSpec, wires: Sequence[Wire]) -> Iterator[str]:
    outputs = {output.layer for output in spec.outputs}
    taken = {
        source
        for layer, wired in zip(spec.layers, wires, strict=True)
        if layer.enabled
        for source in wired.sources
    }
    for row, layer in enumerate(spec.layers):
        if layer.enabled and row not in taken and layer.name not in outputs:
            yield (
                f"Nobody takes the output of row {row + 1} ({layer.name}). "
                "Connect it, make it an output, or switch it off."
            )


def _loss_problems(
    spec: NetworkSpec,
    output: OutputSpec,
    rows: Sequence["LayerAnalysis"],
    wires: Sequence[Wire],
) -> Iterator[str]:
    loss = loss_kind(output.loss)
    if loss is None:
        yield f"The loss {output.loss!r} of the output {output.layer!r} is not known here."
        return
    for name in output.metrics:
        metric = metric_kind(name)
        if metric is None:
            yield f"The metric {name!r} of the output {output.layer!r} is not known here."
        elif loss.labels not in metric.labels:
            yield (
                f"The metric {name} is for labels that are {' or '.join(metric.labels)}; with the "
                f"loss {output.loss} they are {loss.labels}. Choose another metric."
            )
    row = next((row for row in rows if row.name == output.layer), None)
    if row is None or row.output_shape is None or not row.enabled:
        return
    shape = row.output_shape
    if loss.least_outputs > 1 and shape and (shape[-1] or 2) < loss.least_outputs:
        yield (
            f"The loss {output.loss} needs one output for each class, at least "
            f"{loss.least_outputs}; {output.layer!r} has {shape_text(shape)}. "
            "Give it more units, or choose binary_crossentropy."
        )
        return
    yield from _activation_problems(output, loss, last_activation(spec, row.index, wires))


def _activation_problems(
    output: OutputSpec, loss: LossKind, activation: str | None
) -> Iterator[str]:
    if not loss.activations or activation is None or activation in loss.activations:
        return
    wanted = "probabilities" if loss.activations == PROBABILITIES else "other values"
    choices = loss.activations
    if loss.activations == PROBABILITIES:
        choices = ("softmax",) if loss.least_outputs > 1 else ("sigmoid",)
    yield (
        f"The loss {output.loss} expects {wanted}; the output {output.layer!r} has the activation "
        f"{activation}. Give it {' or '.join(choices)}."
    )


def last_activation(spec: NetworkSpec, row: int, wires: Sequence[Wire]) -> str | None:
    """The function that made the values that come out of a row; None: none is known."""
    while True:
        layer = spec.layers[row]
        if layer.kind in _KEEPS_RANGE and len(wires[row].sources) == 1:
            (row,) = wires[row].sources
            continue
        if layer.kind in _NAMED:
            return _NAMED[layer.kind]
        if layer.kind == "Activation":
            return layer.options.get("activation")
        if layer.kind in ("ReLU", "LeakyReLU", "ELU", "PReLU"):
            return "relu" if layer.kind == "ReLU" else "elu"
        if layer.kind in ("LSTM", "GRU", "SimpleRNN"):
            return layer.options.get("activation", "tanh")
        if layer.kind == "Dense" or "Conv" in layer.kind or layer.kind == "TimeDistributed":
            return layer.options.get("activation", "linear")
        return None


def _optimizer_problems(optimizer: OptimizerSpec) -> Iterator[str]:
    kind = OPTIMIZERS.get(optimizer.kind)
    if kind is None:
        yield f"The optimizer {optimizer.kind!r} is not known. Use: {', '.join(OPTIMIZERS)}."
        return
    for name, value in optimizer.options.items():
        option = kind.option(name)
        if option is None:
            yield f"The optimizer {kind.name} has no option `{name}`."
            continue
        try:
            option.check(value)
        except ConfigurationError as error:
            yield f"The optimizer {kind.name}: {error}"
    limits = [n for n in ("clipnorm", "global_clipnorm", "clipvalue") if optimizer.options.get(n)]
    if len(limits) > 1:
        yield f"The optimizer {kind.name} may have one of {' and '.join(limits)}, not both."
