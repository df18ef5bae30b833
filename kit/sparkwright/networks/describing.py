"""A Keras model as rows to look at, and as a network's values if these can hold it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

from ._calls import keras_text, known_kind, layer_call, make
from ._keras_graph import input_names, layers_of, output_names, said_in_calls, sources_of
from ._keras_options import snake_case
from ._training_checks import last_activation
from ._wiring import is_name, names_before, wire, with_inputs_in_order
from .analysis import LayerAnalysis, NetworkAnalysis, Shape
from .keras_catalog import LayerKind, layer_kind, layer_kinds, optimizer_kinds
from .spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec
from .training import Task, defaults_for, loss_kind, plain_name

# Not part of what a layer does, or not kept by a network's values.
_UNSAID = {
    *("name", "seed", "dtype", "batch_shape", "batch_input_shape", "build_config"),
    *("registered_name", "module", "sparse", "ragged", "optional"),
}
_TASKS: dict[str, Task] = {"softmax": "classification", "sigmoid": "binary"}


def describe_model(model: Any) -> NetworkSpec:
    """The values of which `build` would make a model like `model`, without its weights.

    Args:
        model: a Sequential or functional `keras.Model` of layers of Keras, or registered ones.

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
    task, outputs, optimizer = _training(model, layers)
    name = _name(model)
    return NetworkSpec(
        layers=layers,
        outputs=outputs,
        optimizer=optimizer,
        name=name if is_name(name) else "network",
        task=task,
        seed=_seed(model),
    )


def view_model(model: Any) -> NetworkAnalysis:
    """The layers of a model with shapes, parameters and connections, as far as Keras knows them.

    Also of models with layers of one's own, models within models, and subclassed ones; what cannot
    be found out is None. The layers of a model within the model are one row.

    Args:
        model: a `keras.Model`.
    """
    try:
        sources = sources_of(model)
    except Exception:  # Keras' own attributes: what they lack is not shown
        sources = {}
    try:
        layers = layers_of(model)
    except Exception:
        layers = []
    rows = tuple(_row(index, layer, sources) for index, layer in enumerate(layers))
    problems = () if rows else ("Keras tells no layers of this model.",)
    unbuilt = any(row.parameters is None for row in rows)
    if rows and unbuilt:
        problems = ("Some layers are not built: train or call the model once to see shapes.",)
    return NetworkAnalysis(rows=rows, problems=problems)


def _row(index: int, layer: Any, sources: dict[str, list[list[str]]]) -> LayerAnalysis:
    uses = sources.get(str(layer.name), [])
    shape, dtype = _output(layer)
    return LayerAnalysis(
        index=index,
        name=str(layer.name),
        kind="Input" if type(layer).__name__ == "InputLayer" else type(layer).__name__,
        inputs=tuple(dict.fromkeys(name for use in uses for name in use)),
        input_shapes=tuple(_input_shapes(layer)),
        output_shape=shape,
        output_dtype=dtype,
        parameters=_count(layer, "weights"),
        trainable_parameters=_count(layer, "trainable_weights"),
    )


def _output(layer: Any) -> tuple[Shape | None, str | None]:
    try:
        output = layer.output
        first = output[0] if isinstance(output, list | tuple) else output
        if isinstance(output, dict):
            first = next(iter(output.values()))
        return tuple(first.shape[1:]), str(first.dtype)
    except Exception:  # not connected, or called several times
        return None, None


def _input_shapes(layer: Any) -> Iterator[Shape]:
    try:
        given = layer.input
        tensors = list(given) if isinstance(given, list | tuple) else [given]
        shapes = [tuple(tensor.shape[1:]) for tensor in tensors]
    except Exception:
        return
    yield from shapes


def _count(layer: Any, which: str) -> int | None:
    try:
        if not layer.built:
            return None
        return sum(prod(weight.shape) for weight in getattr(layer, which))
    except Exception:
        return None


def _name(model: Any) -> str:
    return str(getattr(model, "name", "") or "network")


def _described(
    layer: Any, sources: Mapping[str, list[list[str]]], said: Mapping[str, str]
) -> LayerSpec:
    where = f"the layer {layer.name!r} ({type(layer).__name__})"
    kind = _kind_of(layer)
    if kind is None:
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
        options = kind.tidy(_options_of(kind, layer))
        spec = LayerSpec(kind=kind.name, name=layer.name, options=options, inputs=tuple(inputs))
        spec = _shortest(kind, spec)
        difference = _difference(layer, spec)
    except Exception as error:  # what Keras raises for options that a spec cannot hold
        raise ConfigurationError(f"{where} cannot be edited: {keras_text(error)}") from error
    if difference is not None:
        raise ConfigurationError(f"{where} cannot be edited: it has {difference}.")
    return spec


def _kind_of(layer: Any) -> LayerKind | None:
    import keras

    if isinstance(layer, keras.layers.InputLayer):
        return layer_kind("Input")
    return next((kind for kind in layer_kinds() if kind.made_by is type(layer)), None)


def _options_of(kind: LayerKind, layer: Any) -> dict[str, Any]:
    config: dict[str, Any] = dict(layer.get_config())
    if kind.name == "Input":
        return {"shape": list(config["batch_shape"][1:]), "dtype": config["dtype"]}
    found = _options_in(kind, config)
    if kind.inner is not None:
        wrapped = config["layer"]
        inside = known_kind(str(wrapped["class_name"]))
        found |= _options_in(inside, wrapped["config"])
        if kind.inner == "cell":
            found["cell"] = inside.name
    return {name: value for name, value in found.items() if kind.option(name) is not None}


def _options_in(kind: LayerKind, config: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a layer's configuration says; what they cannot hold is left out."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        weight, _, what = name.rpartition("_")
        inner: Mapping[str, Any] = value["config"] if _is_object(value) else {}
        if what == "initializer" and weight and _is_object(value):
            found[name] = snake_case(value["class_name"])
        elif what == "regularizer" and weight:
            given = {"l1": inner.get("l1"), "l2": inner.get("l2")}
            found |= {f"{weight}_{key}": number for key, number in given.items() if number}
        elif what == "constraint" and weight:
            if "max_value" in inner:
                found[f"{weight}_max_norm"] = inner["max_value"]
        elif _is_plain(value):
            found[name] = value
    return {
        name: _as_option(option, found[name])
        for name in found
        if (option := kind.option(name)) is not None
    }


def _as_option(option: Option, value: Any) -> Any:
    """The only one of a list of integers, where Keras makes a list of one axis."""
    is_one = option.kind == "int" and isinstance(value, list | tuple) and len(value) == 1
    return value[0] if is_one else value


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("config"), Mapping)


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def _shortest(kind: LayerKind, spec: LayerSpec) -> LayerSpec:
    """The layer without options that Keras derives from others, such as strides from a window."""
    if kind.name == "Input":
        return spec
    whole = _flat(make(layer_call(spec)).get_config())
    for name in [name for name in spec.options if name not in kind.required]:
        fewer = {key: value for key, value in spec.options.items() if key != name}
        shorter = replace(spec, options=fewer)
        if _flat(make(layer_call(shorter)).get_config()) == whole:
            spec = shorter
    return spec


def _difference(layer: Any, spec: LayerSpec) -> str | None:
    """The first setting that is another one in a layer built of `spec`."""
    if spec.kind == "Input":
        return None
    alone = make(layer_call(spec))
    mine, theirs = _flat(alone.get_config()), _flat(layer.get_config())
    for name in sorted(mine.keys() | theirs.keys(), key=lambda name: (name not in theirs, name)):
        last = name.rpartition(".")[2]
        if last == "attention_axes" and theirs.get(name) in (None, [], [1]):
            continue  # what Keras makes of None when it builds the layer
        if last not in _UNSAID and mine.get(name) != theirs.get(name):
            return f"{name}={theirs.get(name)!r:.80}"
    dtype = layer.dtype_policy.name
    return None if dtype == alone.dtype_policy.name else f"the dtype policy {dtype}"


def _flat(value: Any, before: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value.get("class_name") == "function":
        return {before: value["config"]}
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in _UNSAID:
                found |= _flat(inner, f"{before}.{name}" if before else str(name))
        return found
    plain = list(value) if isinstance(value, tuple) else value
    # Some layers make a list of one axis when they are built.
    is_axis = before == "axis" and isinstance(plain, list) and len(plain) == 1
    return {before: plain[0] if is_axis else plain}


def _training(
    model: Any, layers: tuple[LayerSpec, ...]
) -> tuple[Task, tuple[OutputSpec, ...], OptimizerSpec]:
    """Task, outputs and optimizer; what is not compiled takes what fits."""
    compiled: Any = getattr(model, "_compile_config", None)
    optimizer: Any = getattr(model, "optimizer", None)
    config: Mapping[str, Any] = {}
    if compiled is not None and optimizer is not None:
        config = compiled.config
    if config.get("weighted_metrics"):
        raise ConfigurationError(
            f"the model {_name(model)!r} cannot be edited: it is compiled with weighted_metrics. "
            "Compile it with `metrics` alone to edit it."
        )
    names = output_names(model)
    losses = _of_outputs("loss", _names(config.get("loss")), names)
    metrics = _of_outputs("metrics", _names(config.get("metrics")), names)
    weights = _of_outputs("loss_weights", config.get("loss_weights"), names)
    guessed: list[Task] = []
    outputs: list[OutputSpec] = []
    for name, loss, metric, weight in zip(names, losses, metrics, weights, strict=True):
        guessed.append(_task_of(loss, name, layers))
        fitting = defaults_for(guessed[-1])
        given = [metric] if isinstance(metric, str) else metric
        outputs.append(
            OutputSpec(
                layer=name,
                loss=fitting.loss if loss is None else loss,
                metrics=tuple(given or (fitting.metrics if loss is None else ())),
                weight=1.0 if weight is None else weight,
            )
        )
    found = guessed[0] if len(set(guessed)) == 1 else "other"
    return found, tuple(outputs), _optimizer(optimizer) if config else OptimizerSpec()


def _of_outputs(what: str, value: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ConfigurationError(
                f"`{what}` must name outputs of the model ({', '.join(names)}). "
                f"Received: {unknown[0]!r}."
            )
        return [value.get(name) for name in names]
    if len(names) == 1:
        single = isinstance(value, list) and len(value) == 1
        whole = what == "metrics" and not (single and isinstance(value[0], list))
        return [value if whole or not single else value[0]]
    if isinstance(value, list):
        if len(value) != len(names):
            raise ConfigurationError(
                f"`{what}` must have one entry for each of {len(names)} outputs. "
                f"Received: {len(value)}."
            )
        return value
    return [value] * len(names)


def _task_of(loss: str | None, name: str, layers: tuple[LayerSpec, ...]) -> Task:
    kind = loss_kind(loss) if loss else None
    if kind is not None:
        return kind.tasks[0]
    row = [layer.name for layer in layers].index(name)
    activation = last_activation(NetworkSpec(layers=layers), row, wire(layers))
    return _TASKS.get(activation or "", "regression")


def _optimizer(optimizer: Any) -> OptimizerSpec:
    name = type(optimizer).__name__
    kind = next((kind for kind in optimizer_kinds() if kind.made_by is type(optimizer)), None)
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
    return OptimizerSpec(kind=kind.name, options=kind.tidy(given))


def _short(value: Any) -> Any:
    """A float without the digits that a float32 variable has added."""
    if isinstance(value, float):
        short = float(f"{value:.7g}")
        return short if abs(short - value) <= abs(value) * 1e-6 else value
    return value


def _names(value: Any) -> Any:
    import keras

    if value is None or isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return [_names(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: _names(inner) for name, inner in value.items()}
    kind: Any = value if isinstance(value, type) or hasattr(value, "__code__") else type(value)
    registered = keras.saving.get_registered_name(kind)
    if keras.saving.get_custom_objects().get(registered) is kind:
        return registered
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
    found = [seed for layer in layers_of(model) for seed in _seeds(layer.get_config())]
    return min(found) if found and sorted(found) == _counted(found) else None


def _seeds(config: Any) -> Iterator[int]:
    if isinstance(config, Mapping):
        for name, value in config.items():
            if name == "seed" and isinstance(value, int):
                yield value
            elif name != "backward_layer":  # begins as the other one
                yield from _seeds(value)


def _counted(seeds: list[int]) -> list[int]:
    return list(range(min(seeds), min(seeds) + len(seeds)))
