"""A network's values of a Keras model that is made of known layers."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sparkwright.errors import ConfigurationError

from ._building import layer_alone
from ._call_reading import layer_options
from ._calls import Call
from ._catalogue import LAYER_KINDS
from ._chains import names_before, with_inputs_in_order
from ._code_training import Compiled, read_training
from ._defaults import without_defaults
from ._keras_layers import (
    call_of,
    calls_in,
    input_names,
    layers_of,
    output_names,
    said_in_calls,
    sources_of,
)
from ._names import is_name
from ._network_spec import LayerSpec, NetworkSpec, OptimizerSpec
from ._optimizers import OPTIMIZERS
from ._shapes import Misfit
from ._training_names import plain_name

# Not part of what a layer does, or not kept by a network's values.
_UNSAID = {
    *("name", "seed", "dtype", "batch_shape", "batch_input_shape", "build_config"),
    *("registered_name", "module", "sparse", "ragged", "optional", "axis_of_batch"),
}


def describe_model(model: Any) -> NetworkSpec:
    """The values of which `build` would make a model like `model`, without its weights.

    Args:
        model: a Sequential or functional `keras.Model` of layers of the catalogue.

    Raises:
        ConfigurationError: naming the layer or setting that a network's values cannot hold.
    """
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ConfigurationError(
            f"the model {_name(model)!r} must be a built Sequential or functional model. "
            f"Received: {type(model).__name__}. Its layers can still be looked at."
        )
    sources = sources_of(model)
    said = said_in_calls(model)
    layers = tuple(_described(layer, sources, said) for layer in layers_of(model))
    layers = with_inputs_in_order(layers, input_names(model))
    before = names_before(layers)
    layers = tuple(
        replace(layer, inputs=() if list(layer.inputs) == before[row] else layer.inputs)
        for row, layer in enumerate(layers)
    )
    for row in NetworkSpec(layers=layers).analysis.rows:
        if row.problem is not None:
            raise ConfigurationError(
                f"the layer {row.name!r} ({row.kind}) cannot be edited: it {row.problem}"
            )
    compiled = _compiled(model)
    task, outputs, optimizer = read_training(compiled, layers, output_names(model))
    name = _name(model)
    return NetworkSpec(
        layers=layers,
        outputs=outputs,
        optimizer=optimizer,
        name=name if is_name(name) else "network",
        task=task,
        seed=_seed(model),
    )


def _name(model: Any) -> str:
    return str(getattr(model, "name", "") or "network")


def _described(
    layer: Any, sources: Mapping[str, list[list[str]]], said: Mapping[str, str]
) -> LayerSpec:
    call = call_of(layer)
    kind = LAYER_KINDS.get(call.function.removeprefix("layers."))
    where = f"the layer {layer.name!r} ({type(layer).__name__})"
    if kind is None or not type(layer).__module__.startswith("keras."):
        raise ConfigurationError(f"{where} is not among the layers that can be edited.")
    uses = sources.get(layer.name, [])
    if len(uses) > 1:
        raise ConfigurationError(f"{where} is used {len(uses)} times, which cannot be edited.")
    if layer.name in said:
        raise ConfigurationError(
            f"{where} cannot be edited: it is called with {said[layer.name]}. "
            "Call it without to edit it."
        )
    inputs = uses[0] if uses else []
    if kind.separately and len(set(inputs)) == 1:
        inputs = inputs[:1]
    try:
        options = layer_options(_only_known(call))
    except Misfit as misfit:
        raise ConfigurationError(f"{where} cannot be edited: {misfit}") from misfit
    if kind.group == "pooling" and options.get("strides") == options.get("pool_size"):
        options.pop("strides", None)  # which is what Keras makes of None
    if options.get("value_dim") == options.get("key_dim"):
        options.pop("value_dim", None)  # as well
    spec = LayerSpec(kind=kind.name, name=layer.name, options=options, inputs=tuple(inputs))
    difference = _difference(layer, spec)
    if difference is not None:
        raise ConfigurationError(f"{where} cannot be edited: it has {difference}.")
    return spec


def _only_known(call: Call) -> Call:
    """The call without arguments that its kind has no option for; `_difference` looks at them."""
    kind = LAYER_KINDS.get(call.function.rpartition(".")[2])
    if kind is None:
        return call
    kept: list[tuple[str, Any]] = []
    for name, value in call.arguments:
        if isinstance(value, Call) and value.function.startswith("layers."):
            kept.append((name, _only_known(value)))
            continue
        weight, _, what = name.rpartition("_")
        option = {"regularizer": f"{weight}_l2", "constraint": f"{weight}_max_norm"}.get(what, name)
        if kind.option(option) is not None or name in ("", "name"):
            kept.append((name, _bare(value)))
    place = call.function.rpartition(".")[2]
    return Call("Input" if place == "Input" else f"layers.{place}", tuple(kept))


def _bare(value: Any) -> Any:
    """An initializer without its arguments, which `_difference` looks at."""
    is_initializer = isinstance(value, Call) and value.function.startswith("initializers.")
    return Call(value.function) if is_initializer else value


def _difference(layer: Any, spec: LayerSpec) -> str | None:
    """The first setting that is another one in a layer built of `spec`."""
    if spec.kind == "Input":
        return None
    mine, theirs = _flat(layer_alone(spec).get_config()), _flat(layer.get_config())
    for name in sorted(mine.keys() | theirs.keys()):
        last = name.rpartition(".")[2]
        if last == "attention_axes" and theirs.get(name) in (None, [1]):
            continue  # what Keras makes of None when it builds the layer
        if last not in _UNSAID and mine.get(name) != theirs.get(name):
            return f"{name}={theirs.get(name)!r:.80}"
    dtype = getattr(getattr(layer, "dtype_policy", None), "name", "float32")
    return None if dtype == "float32" else f"the dtype policy {dtype}"


def _flat(value: Any, before: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in _UNSAID:
                found |= _flat(inner, f"{before}.{name}" if before else str(name))
        return found
    plain = list(value) if isinstance(value, tuple) else value
    return {before: plain}


def _compiled(model: Any) -> Compiled:
    compiled = getattr(model, "_compile_config", None)
    if compiled is None or getattr(model, "optimizer", None) is None:
        return Compiled()
    config = compiled.config
    if config.get("weighted_metrics"):
        raise ConfigurationError(
            f"the model {_name(model)!r} cannot be edited: it is compiled with weighted_metrics. "
            "Compile it with `metrics` alone to edit it."
        )
    return Compiled(
        optimizer=_optimizer(model.optimizer),
        loss=_names(config.get("loss")),
        metrics=_names(config.get("metrics")),
        weights=config.get("loss_weights"),
    )


def _optimizer(optimizer: Any) -> OptimizerSpec:
    name = type(optimizer).__name__
    kind = OPTIMIZERS.get(name)
    if kind is None:
        raise ConfigurationError(f"the optimizer {name} is not among those that can be edited.")
    given: dict[str, Any] = {}
    for key, value in optimizer.get_config().items():
        option = kind.option(key)
        if option is None:
            if key == "name" or value in (None, False):
                continue
            raise ConfigurationError(
                f"the optimizer {name} cannot be edited: it has {key}={value}."
            )
        if not (value is None or isinstance(value, bool | int | float)):
            raise ConfigurationError(f"the optimizer {name} cannot be edited: its {key} changes.")
        given[key] = _short(value)
    return OptimizerSpec(kind=name, options=without_defaults(given, kind.defaults))


def _short(value: Any) -> Any:
    """A float without the digits that a float32 variable has added."""
    if isinstance(value, float):
        short = float(f"{value:.7g}")
        return short if abs(short - value) <= abs(value) * 1e-6 else value
    return value


def _names(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_names(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: _names(inner) for name, inner in value.items()}
    kind: Any = value if isinstance(value, type) or hasattr(value, "__code__") else type(value)
    module, name = str(getattr(kind, "__module__", "")), str(getattr(kind, "__name__", ""))
    usual = module.startswith("keras.") and (kind is value or _settings(value) == _settings(kind()))
    if not usual:
        raise ConfigurationError(f"{name} as a loss or metric cannot be edited.")
    return plain_name(name)


def _settings(thing: Any) -> dict[str, Any]:
    config = thing.get_config()
    return {key: value for key, value in config.items() if key not in ("name", "dtype")}


def _seed(model: Any) -> int | None:
    """The seed of the first random source, if the others count up from it."""
    found: list[int] = []
    for layer in layers_of(model):
        for call in calls_in(call_of(layer)):
            seed = dict(call.arguments).get("seed")
            if isinstance(seed, int):
                found.append(seed)
    return min(found) if found and sorted(found) == _counted(found) else None


def _counted(seeds: list[int]) -> list[int]:
    return list(range(min(seeds), min(seeds) + len(seeds)))
