"""Facts on a network for reports, from a SparkNetwork, keras.Model or NetworkSpec."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sparkwright.networks as networks
from sparkwright.networks.building import parameter_count
from sparkwright_widgets._format import plain


@dataclass(frozen=True, kw_only=True, slots=True)
class NetworkFacts:
    """Facts on a network."""

    name: str
    # (name, kind, output shape, parameters) as text.
    layers: Sequence[tuple[str, str, str, str]] = ()
    parameters: int | None = None  # None: unknown
    trainable: int | None = None
    optimizer: str = ""  # class; "": unknown
    optimizer_settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    loss: str = ""
    metrics: Sequence[str] = ()
    json: str = ""  # complete configuration; "": none
    code: str = ""  # that builds the network; "": none


def network_facts(network: Any) -> NetworkFacts | None:
    """Return facts on a SparkNetwork, keras.Model or NetworkSpec; None for anything else."""
    if isinstance(network, networks.NetworkSpec):
        return _of_spec(network)
    model = getattr(network, "model", network)
    # Recognize a keras.Model by its attributes, to avoid importing Keras.
    return _of_model(model) if hasattr(model, "layers") and hasattr(model, "weights") else None


def model_of(network: Any) -> Any:
    """Return `network` if it is a keras.Model, or the model of a SparkNetwork; else None."""
    model = getattr(network, "model", network)
    return model if hasattr(model, "layers") and hasattr(model, "weights") else None


def _of_spec(spec: Any) -> NetworkFacts:
    analysis = spec.analysis
    return NetworkFacts(
        name=spec.name,
        layers=[
            (row.name, row.kind, _shape(row.output_shape), _count(row.parameters))
            for row in analysis.rows
            if row.enabled
        ],
        parameters=analysis.parameters,
        optimizer=spec.optimizer.kind,
        optimizer_settings=dict(spec.optimizer.options),
        loss=", ".join(f"{output.loss} of {output.layer}" for output in spec.outputs),
        metrics=[name for output in spec.outputs for name in output.metrics],
        json=json.dumps(spec.to_dict(), indent=2),
        code=_code_of(spec),
    )


def _of_model(model: Any) -> NetworkFacts:
    parameters = parameter_count(model)
    optimizer: Any = getattr(model, "optimizer", None)
    settings: dict[str, Any] = {} if optimizer is None else dict(optimizer.get_config())
    return NetworkFacts(
        name=str(model.name),
        layers=[_layer(layer) for layer in model.layers],
        parameters=parameters,
        trainable=sum(math.prod(variable.shape) for variable in model.trainable_variables),
        optimizer="" if optimizer is None else type(optimizer).__name__,
        optimizer_settings=settings,
        loss=_loss_text(getattr(model, "loss", None)),
        metrics=_metrics(model),
        json=_json_of(model),
        code=_code_of_model(model),
    )


def _layer(layer: Any) -> tuple[str, str, str, str]:
    try:
        shape = _shape(layer.output.shape)
    except Exception:  # a layer without exactly one output, or a custom layer
        shape = "—"
    try:
        count = _count(layer.count_params())
    except ValueError:  # the layer is not built
        count = "—"
    return str(layer.name), type(layer).__name__, shape, count


def _shape(shape: Any) -> str:
    if shape is None:
        return "—"
    if isinstance(shape, Mapping):
        return ", ".join(f"{name}: {_shape(inner)}" for name, inner in shape.items())
    sizes = list(shape)
    if any(isinstance(size, list | tuple) for size in sizes):
        return ", ".join(map(_shape, sizes))
    return " x ".join("any" if size is None else str(size) for size in sizes) or "one number"


def _count(count: int | None) -> str:
    return "—" if count is None else f"{count:,}"


def _loss_text(loss: Any) -> str:
    if loss is None:
        return ""
    if isinstance(loss, Mapping):
        return ", ".join(f"{_loss_text(each)} of {name}" for name, each in loss.items())
    if isinstance(loss, list | tuple):
        return ", ".join(map(_loss_text, loss))
    return loss if isinstance(loss, str) else str(getattr(loss, "name", type(loss).__name__))


def _metrics(model: Any) -> list[str]:
    config: Any = getattr(model, "get_compile_config", dict)() or {}
    given: Any = config.get("metrics") or []
    return list(dict.fromkeys(_flat(given)))


def _flat(given: Any) -> list[str]:
    if isinstance(given, Mapping):
        if "class_name" in given:
            return [str(given.get("config", {}).get("name", given["class_name"]))]
        return [name for each in given.values() for name in _flat(each)]
    if isinstance(given, list | tuple):
        return [name for each in given for name in _flat(each)]
    return [] if given is None else [str(given)]


def _json_of(model: Any) -> str:
    try:
        return json.dumps(json.loads(model.to_json()), indent=2)
    except Exception as error:  # a subclassed model without a configuration
        return plain(f"Keras cannot write this network as JSON: {error}")


def _code_of_model(model: Any) -> str:
    describe: Any = getattr(networks, "describe_model", None)
    if describe is None:
        return ""
    try:
        return _code_of(describe(model))
    except Exception:  # a NetworkSpec cannot hold the model
        return ""


def _code_of(spec: Any) -> str:
    try:
        return str(spec.to_code())
    except Exception:  # the spec may be invalid while it is edited
        return ""
