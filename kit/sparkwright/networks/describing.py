"""Convert a Keras model to layer rows for display, and to a NetworkSpec for editing."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sparkwright.errors import ConfigurationError

from ._calls import keras_text, known_kind, layer_call, make, optimizer_call
from ._keras_graph import Use, functional, layers_of, made_by, uses_of
from ._keras_options import snake_case
from ._training_checks import last_activation
from ._wiring import is_name
from .analysis import LayerAnalysis, NetworkAnalysis, count_numbers
from .keras_catalog import LayerKind, layer_kinds, optimizer_kinds
from .schedules import read_schedule
from .signature import output_names
from .spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec
from .training import OWN_METRICS, Task, defaults_for, loss_kind, plain_name

T = TypeVar("T")
# Settings that do not affect the computation, or that a NetworkSpec does not hold.
_IGNORED_SETTINGS = {
    *("name", "seed", "dtype", "batch_shape", "batch_input_shape", "build_config"),
    *("registered_name", "module", "sparse", "ragged", "optional"),
}
_TASKS: dict[str, Task] = {"softmax": "classification", "sigmoid": "binary"}


def describe_model(model: Any) -> NetworkSpec:
    """Describe `model` as a NetworkSpec, without its weights.

    Args:
        model: a Sequential or functional `keras.Model` of Keras' layers or registered ones.

    Raises:
        ConfigurationError: if a NetworkSpec cannot hold a layer or setting; the message names it.
    """
    if not getattr(model, "inputs", None) or not getattr(model, "outputs", None):
        raise ConfigurationError(
            f"the model {_name(model)!r} must be a built Sequential or functional model. "
            f"Received: {type(model).__name__}. `view_model` shows its layers."
        )
    uses = uses_of(model)
    described = {
        layer.name: _described(layer, uses.get(layer.name, [])) for layer in layers_of(model)
    }
    # Inputs in the order of the model's arguments.
    inputs = [made_by(tensor).name for tensor in functional(model).inputs]
    if inputs != [name for name in described if name in inputs]:
        described = {name: described[name] for name in (*inputs, *described)}
    names = ["", *described]
    layers = tuple(
        replace(layer, inputs=() if layer.inputs == (before,) else layer.inputs)
        for before, layer in zip(names, described.values(), strict=False)
    )
    spec = NetworkSpec(layers=layers)
    for row in spec.analysis.rows:
        if row.problem is not None:
            raise ConfigurationError(
                f"the layer {row.name!r} ({row.kind}) cannot be edited: {row.problem}"
            )
    name = _name(model)
    return replace(
        spec, name=name if is_name(name) else "network", seed=_seed(model), **_training(model, spec)
    )


def view_model(model: Any) -> NetworkAnalysis:
    """List the layers of any model with shapes, parameters and connections.

    Values that Keras does not provide are None. A nested model is one row.

    Args:
        model: any `keras.Model`, with custom layers or subclassed as well.
    """
    uses = _found(lambda: uses_of(model), dict[str, list[Use]]())
    layers = _found(lambda: layers_of(model), [])
    rows = tuple(_row(index, layer, uses) for index, layer in enumerate(layers))
    problems = () if rows else ("Keras lists no layers of this model.",)
    if any(row.parameters is None for row in rows):
        problems = ("Some layers are not built: train or call the model once to see shapes.",)
    return NetworkAnalysis(rows=rows, problems=problems)


def _row(index: int, layer: Any, uses: Mapping[str, Sequence[Use]]) -> LayerAnalysis:
    name, kind = str(layer.name), type(layer).__name__
    output: Any = _found(lambda: _listed(layer.output)[0], None)
    is_built = _found(lambda: layer.built, False)
    return LayerAnalysis(
        index=index,
        name=name,
        kind="Input" if kind == "InputLayer" else kind,
        inputs=tuple(dict.fromkeys(name for use in uses.get(name, []) for name in use.sources)),
        input_shapes=_found(lambda: tuple(tuple(x.shape[1:]) for x in _listed(layer.input)), ()),
        output_shape=_found(lambda: tuple(output.shape[1:]), None),
        output_dtype=None if output is None else str(output.dtype),
        parameters=count_numbers(layer.weights) if is_built else None,
        trainable_parameters=count_numbers(layer.trainable_weights) if is_built else None,
    )


def _found(find: Callable[[], T], otherwise: T) -> T:
    """Return the result of `find`, or `otherwise` if it raises."""
    try:
        return find()
    except Exception:  # the layer is not connected, not built, or called several times
        return otherwise


def _listed(value: Any) -> list[Any]:
    if isinstance(value, Mapping):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def _name(model: Any) -> str:
    return str(getattr(model, "name", "") or "network")


# --- layers


def _described(layer: Any, uses: Sequence[Use]) -> LayerSpec:
    name = "Input" if type(layer).__name__ == "InputLayer" else type(layer).__name__
    where = f"the layer {layer.name!r} ({name})"
    made = (kind for kind in layer_kinds() if kind.made_by is type(layer))
    kind = known_kind("Input") if name == "Input" else next(made, None)
    if kind is None:
        raise ConfigurationError(f"{where} cannot be edited: this class is not supported.")
    if len(uses) > 1:
        raise ConfigurationError(
            f"{where} cannot be edited: it is called {len(uses)} times. Only layers that are "
            "called once are supported."
        )
    if uses and uses[0].argument:
        raise ConfigurationError(
            f"{where} cannot be edited: it is called with {uses[0].argument}. "
            "Call it without this argument to edit it."
        )
    inputs = uses[0].sources if uses else ()
    if kind.separately and len(set(inputs)) == 1:
        inputs = inputs[:1]
    try:
        options = kind.tidy(_options_of(kind, layer))
        spec = LayerSpec(kind=kind.name, name=layer.name, options=options, inputs=inputs)
        if name == "Input":
            return spec
        spec = _shortest(kind, spec)
        difference = _difference(make(layer_call(spec)), layer)
    except Exception as error:  # raised by Keras for options that a spec cannot hold
        raise ConfigurationError(f"{where} cannot be edited: {keras_text(error)}") from error
    if difference:
        raise ConfigurationError(f"{where} cannot be edited: {difference} is not supported.")
    return spec


def _options_of(kind: LayerKind, layer: Any) -> dict[str, Any]:
    config: dict[str, Any] = dict(layer.get_config())
    if kind.name == "Input":
        return {"shape": list(config["batch_shape"][1:]), "dtype": config["dtype"]}
    found = dict(_options_in(config))
    if kind.inner is not None:
        inside = known_kind(str(config["layer"]["class_name"]))
        found |= dict(_options_in(config["layer"]["config"])) | {"cell": inside.name}
    single = {option.name for option in kind.options if option.kind == "int"}
    return {
        # Keras converts a single axis to a list.
        name: value[0] if name in single and isinstance(value, list | tuple) else value
        for name, value in found.items()
        if kind.option(name) is not None
    }


def _options_in(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the options in a layer's configuration; settings without an option are left out."""
    for name, value in config.items():
        weight, _, what = name.rpartition("_")
        inner = value.get("config") if isinstance(value, Mapping) else None
        if what == "initializer" and weight and inner is not None:
            yield name, snake_case(value["class_name"])
        elif what == "regularizer" and isinstance(inner, Mapping):
            yield from ((f"{weight}_{x}", inner[x]) for x in ("l1", "l2") if inner.get(x))
        elif what == "constraint" and isinstance(inner, Mapping) and "max_value" in inner:
            yield f"{weight}_max_norm", inner["max_value"]
        elif not isinstance(value, Mapping):
            yield name, value


def _shortest(kind: LayerKind, spec: LayerSpec) -> LayerSpec:
    """Drop options that Keras derives from others, such as strides from the pool size."""
    whole = _flat(make(layer_call(spec)).get_config())
    for name in [name for name in spec.options if name not in kind.required]:
        fewer = {key: value for key, value in spec.options.items() if key != name}
        shorter = replace(spec, options=fewer)
        if _flat(make(layer_call(shorter)).get_config()) == whole:
            spec = shorter
    return spec


def _difference(made: Any, theirs: Any) -> str:
    """Return the first setting of the Keras object `theirs` that differs in `made`; "" if none."""
    mine, given = _flat(made.get_config()), _flat(theirs.get_config())
    for name in sorted(mine.keys() | given.keys(), key=lambda name: (name not in given, name)):
        if name.endswith("attention_axes") and given.get(name) in (None, [], [1]):
            continue  # Keras replaces None when it builds the layer
        if mine.get(name) != given.get(name):
            return f"{name}={given.get(name)!r:.80}"
    dtype = getattr(getattr(theirs, "dtype_policy", None), "name", None)
    same = dtype == getattr(getattr(made, "dtype_policy", None), "name", None)
    return "" if same else f"the dtype policy {dtype}"


def _flat(value: Any, before: str = "") -> dict[str, Any]:
    if isinstance(value, Mapping) and value.get("class_name") == "function":
        return {before: value["config"]}
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for name, inner in value.items():
            if name not in _IGNORED_SETTINGS:
                found |= _flat(inner, f"{before}.{name}" if before else str(name))
        return found
    if isinstance(value, float):  # drop digits beyond the precision of float32
        return {before: float(f"{value:.7g}")}
    plain = list(value) if isinstance(value, tuple) else value
    # Some layers convert a single axis to a list when they are built.
    is_axis = before == "axis" and isinstance(plain, list) and len(plain) == 1
    return {before: plain[0] if is_axis else plain}


# --- training


def _training(model: Any, spec: NetworkSpec) -> dict[str, Any]:
    """Return the task, outputs and optimizer; defaults for a model that is not compiled."""
    compiled, optimizer = getattr(model, "_compile_config", None), getattr(model, "optimizer", None)
    config: Any = {} if compiled is None or optimizer is None else compiled.config
    if config.get("weighted_metrics"):
        raise ConfigurationError(
            f"the model {_name(model)!r} cannot be edited: it is compiled with weighted_metrics. "
            "Compile it with `metrics` alone to edit it."
        )
    names = output_names(model)
    keys = ("loss", "metrics", "loss_weights")
    by_output = (_of_outputs(key, _names(config.get(key)), names) for key in keys)
    tasks: list[Task] = []
    outputs: list[OutputSpec] = []
    for name, loss, metrics, weight in zip(names, *by_output, strict=True):
        known = loss_kind(loss or "")
        activation = last_activation(spec, name, spec.analysis.rows)
        tasks.append(known.tasks[0] if known else _TASKS.get(activation or "", "regression"))
        fitting = defaults_for(tasks[-1])
        given = [metrics] if isinstance(metrics, str) else metrics
        outputs.append(
            OutputSpec(
                layer=name,
                loss=loss or fitting.loss,
                metrics=tuple(given or (() if loss else fitting.metrics)),
                weight=1.0 if weight is None else weight,
            )
        )
    return {
        "task": tasks[0] if len(set(tasks)) == 1 else "other",
        "outputs": tuple(outputs),
        "optimizer": _optimizer(optimizer) if config else OptimizerSpec(),
    }


def _of_outputs(what: str, value: Any, names: Sequence[str]) -> list[Any]:
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in names]
        if unknown:
            raise ConfigurationError(
                f"the keys of `{what}` must be outputs of the model ({', '.join(names)}). "
                f"Received: {unknown[0]!r}."
            )
        return [value.get(name) for name in names]
    if len(names) == 1:
        single = isinstance(value, list) and len(value) == 1
        whole = what == "metrics" and not (single and isinstance(value[0], list))
        return [value if whole or not single else value[0]]
    values = value if isinstance(value, list) else [value] * len(names)
    if len(values) != len(names):
        raise ConfigurationError(
            f"`{what}` must have one entry for each of {len(names)} outputs. "
            f"Received: {len(values)}."
        )
    return values


def _names(value: Any) -> Any:
    """Replace losses and metrics in nested lists and dicts by Keras' names."""
    import keras

    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, list | tuple):
        return [_names(inner) for inner in value]
    if isinstance(value, Mapping):
        return {name: _names(inner) for name, inner in value.items()}
    kind: Any = value if isinstance(value, type) or hasattr(value, "__code__") else type(value)
    module, name = str(getattr(kind, "__module__", "")), str(getattr(kind, "__name__", ""))
    is_own = module == "sparkwright.networks.metrics"
    registered = keras.saving.get_registered_name(kind)
    if not is_own and keras.saving.get_custom_objects().get(registered) is kind:
        return registered
    if not (is_own or module.startswith("keras.")):
        raise ConfigurationError(
            f"the loss or metric {name} cannot be edited: it is neither of Keras nor registered."
        )
    if kind is not value:
        made = kind()
        difference = _difference(made, value)
        # Keras numbers repeated names.
        names = {re.sub(r"_\d+$", "", each.name) for each in (made, value)}
        if not difference and isinstance(value, keras.Metric) and len(names) > 1:
            difference = f"name={value.name!r}"
        if difference:
            raise ConfigurationError(
                f"the loss or metric {name} cannot be edited: {difference} is not supported."
            )
    own = {kind: name for name, kind in OWN_METRICS.items()}
    return own[name] if is_own else plain_name(name)


def _optimizer(optimizer: Any) -> OptimizerSpec:
    name = type(optimizer).__name__
    kind = next((kind for kind in optimizer_kinds() if kind.made_by is type(optimizer)), None)
    if kind is None:
        raise ConfigurationError(
            f"the optimizer {name} cannot be edited: this class is not supported."
        )
    given, schedule = dict(optimizer.get_config()), None
    if isinstance(rate := given.get("learning_rate"), Mapping):
        found = read_schedule(str(rate.get("class_name")), rate.get("config", {}))
        if found is not None:
            given["learning_rate"], schedule = found
    config = _flat(given)
    options = kind.tidy({key: value for key, value in config.items() if kind.option(key)})
    spec = OptimizerSpec(kind=kind.name, options=options, schedule=schedule)
    difference = _difference(make(optimizer_call(spec)), optimizer)
    if difference:
        raise ConfigurationError(
            f"the optimizer {name} cannot be edited: {difference} is not supported."
        )
    return spec


def _seed(model: Any) -> int | None:
    """Return the smallest seed of the random sources if their seeds are consecutive."""
    found = sorted(seed for layer in layers_of(model) for seed in _seeds(layer.get_config()))
    return found[0] if found and found == [found[0] + n for n in range(len(found))] else None


def _seeds(config: Any) -> Iterator[int]:
    if isinstance(config, Mapping):
        for name, value in config.items():
            if name == "seed" and isinstance(value, int):
                yield value
            elif name != "backward_layer":  # repeats the seeds of the forward layer
                yield from _seeds(value)
