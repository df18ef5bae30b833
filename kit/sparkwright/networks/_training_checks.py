"""What is wrong with a network as a whole: outputs, losses, metrics, the optimizer."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError

from ._calls import keras_text
from ._wiring import NAME_RULE, Wire, is_name
from .keras_catalog import layer_kind, optimizer_kind, optimizer_kinds
from .training import PROBABILITIES, LossKind, loss_kind, metric_kind

if TYPE_CHECKING:
    from .analysis import LayerAnalysis
    from .spec import NetworkSpec, OptimizerSpec, OutputSpec

_KEEPS_RANGE = {
    *("Dropout", "SpatialDropout1D", "SpatialDropout2D", "GaussianDropout", "Flatten", "Reshape"),
    *("Permute", "RepeatVector", "MaxPooling1D", "MaxPooling2D", "AveragePooling1D"),
    *("AveragePooling2D", "GlobalMaxPooling1D", "GlobalMaxPooling2D", "GlobalAveragePooling1D"),
    *("GlobalAveragePooling2D", "Masking", "Cropping1D", "Cropping2D"),
}
_METRICS_OF_COMPILE = ("accuracy", "acc", "crossentropy", "ce")
_NAMED = {"Softmax": "softmax", "BatchNormalization": "linear", "LayerNormalization": "linear"}


def training_problems(
    spec: "NetworkSpec", rows: Sequence["LayerAnalysis"], wires: Sequence[Wire]
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


def _output_problems(spec: "NetworkSpec") -> Iterator[str]:
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


def _unused(spec: "NetworkSpec", wires: Sequence[Wire]) -> Iterator[str]:
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
    spec: "NetworkSpec",
    output: "OutputSpec",
    rows: Sequence["LayerAnalysis"],
    wires: Sequence[Wire],
) -> Iterator[str]:
    wrong = _refused("losses", output.loss)
    if wrong:
        yield f"The loss {output.loss!r} of the output {output.layer!r}: {wrong}"
        return
    loss = loss_kind(output.loss)
    for name in output.metrics:
        metric = metric_kind(name)
        wrong = "" if name in _METRICS_OF_COMPILE else _refused("metrics", name)
        if wrong:
            yield f"The metric {name!r} of the output {output.layer!r}: {wrong}"
        elif loss is not None and metric is not None and loss.labels not in metric.labels:
            yield (
                f"The metric {name} is for labels that are {' or '.join(metric.labels)}; with the "
                f"loss {output.loss} they are {loss.labels}. Choose another metric."
            )
    if loss is None:
        return
    row = next((row for row in rows if row.name == output.layer), None)
    if row is None or row.output_shape is None or not row.enabled:
        return
    shape = row.output_shape
    if loss.least_outputs > 1 and shape and (shape[-1] or 2) < loss.least_outputs:
        yield (
            f"The loss {output.loss} needs one output for each class, at least "
            f"{loss.least_outputs}; {output.layer!r} has {shape[-1]}. "
            "Give it more units, or choose binary_crossentropy."
        )
        return
    yield from _activation_problems(output, loss, last_activation(spec, row.index, wires))


def _refused(what: str, name: str) -> str:
    """What Keras says of a loss or metric that it cannot make; empty: it can."""
    import keras

    if name in keras.saving.get_custom_objects():
        return ""
    try:
        getattr(keras, what).get(name)
    except (TypeError, ValueError) as error:
        return keras_text(error)
    return ""


def _activation_problems(
    output: "OutputSpec", loss: LossKind, activation: str | None
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


def last_activation(spec: "NetworkSpec", row: int, wires: Sequence[Wire]) -> str | None:
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
        kind = layer_kind(layer.kind)
        option = None if kind is None else kind.option("activation")
        return None if option is None else layer.options.get("activation", option.default)


def _optimizer_problems(optimizer: "OptimizerSpec") -> Iterator[str]:
    kind = optimizer_kind(optimizer.kind)
    if kind is None:
        names = ", ".join(known.name for known in optimizer_kinds())
        yield f"The optimizer {optimizer.kind!r} is not known. Use: {names}."
        return
    for name, value in optimizer.options.items():
        option = kind.option(name)
        if option is None:
            yield f"The optimizer {kind.name} has no option `{name}`."
            return
        try:
            option.check(value)
        except ConfigurationError as error:
            yield f"The optimizer {kind.name}: {error}"
            return
    try:
        kind.made_by(**optimizer.options)
    except Exception as error:  # whatever Keras or a class of the user raises
        yield f"The optimizer {kind.name}: {keras_text(error)}"
