"""Facts on a network for reports, from a SparkNetwork, keras.Model or NetworkSpec."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkwright.networks import LayerAnalysis, NetworkSpec, describe_model, view_model
from sparkwright.networks.analysis import count_numbers
from sparkwright_widgets._format import count_text, plain, shape_text


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
    if isinstance(network, NetworkSpec):
        return _of_spec(network)
    model = model_of(network)
    return None if model is None else _of_model(model)


def model_of(network: Any) -> Any:
    """Return `network` if it is a keras.Model, or the model of a SparkNetwork; else None."""
    model = getattr(network, "model", network)
    # Recognize a keras.Model by its attributes, to avoid importing Keras.
    return model if hasattr(model, "layers") and hasattr(model, "weights") else None


def _of_spec(spec: NetworkSpec) -> NetworkFacts:
    analysis = spec.analysis
    return NetworkFacts(
        name=spec.name,
        layers=[_layer(row) for row in analysis.rows if row.enabled],
        parameters=analysis.parameters,
        optimizer=spec.optimizer.kind,
        optimizer_settings=dict(spec.optimizer.options),
        loss=", ".join(f"{output.loss} of {output.layer}" for output in spec.outputs),
        metrics=[name for output in spec.outputs for name in output.metrics],
        json=json.dumps(spec.to_dict(), indent=2),
        code=_code(spec.to_code),
    )


def _of_model(model: Any) -> NetworkFacts:
    optimizer: Any = getattr(model, "optimizer", None)
    return NetworkFacts(
        name=str(model.name),
        layers=list(map(_layer, view_model(model).rows)),
        parameters=count_numbers(model.weights),
        trainable=count_numbers(model.trainable_weights),
        optimizer="" if optimizer is None else type(optimizer).__name__,
        optimizer_settings={} if optimizer is None else dict(optimizer.get_config()),
        loss=_loss_text(getattr(model, "loss", None)),
        metrics=_metrics(model),
        json=_json_of(model),
        code=_code(lambda: describe_model(model).to_code()),
    )


def _layer(row: LayerAnalysis) -> tuple[str, str, str, str]:
    count = "—" if row.parameters is None else count_text(row.parameters)
    return row.name, row.kind, shape_text(row.output_shape), count


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


def _code(write: Callable[[], str]) -> str:
    try:
        return write()
    except Exception:  # the spec may be invalid while it is edited, or unable to hold the model
        return ""
