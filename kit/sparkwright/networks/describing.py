"""Convert a Keras model to layer rows for display, and to a NetworkSpec for editing."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from sparkwright.errors import ConfigurationError

from ._calls import keras_text, known_kind, layer_call, make, optimizer_call, seeded
from ._keras_graph import Use, functional, layers_of, made_by, uses_of
from ._keras_options import FACTORS, snake_case
from ._training_checks import last_activation
from ._wiring import is_name
from .analysis import LayerAnalysis, NetworkAnalysis, count_numbers
from .keras_catalog import Kind, LayerKind, layer_kinds, optimizer_kinds
from .palette import CHOICES
from .schedules import AbstractSchedule, read_schedule
from .signature import output_names
from .spec import LayerSpec, NetworkSpec, OptimizerSpec, OutputSpec
from .training import OWN_METRICS, Task, defaults_for, loss_kind, plain_name

T = TypeVar("T")
# Settings that Keras computes when it builds a layer.
_NOT_COPIED = {"batch_shape", "batch_input_shape", "build_config", "shared_object_id"}
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
    with seeded(0):
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
    return replace(spec, name=name if is_name(name) else "network", **_training(model, spec))


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
    import keras

    return keras.tree.flatten(value)


def _name(model: Any) -> str:
    return str(getattr(model, "name", "") or "network")


# --- layers


def _described(layer: Any, uses: Sequence[Use]) -> LayerSpec:
    name = "Input" if type(layer).__name__ == "InputLayer" else type(layer).__name__
    where = f"the layer {layer.name!r} ({name})"
    same = (kind for kind in layer_kinds() if kind.made_by is type(layer))
    kind = known_kind("Input") if name == "Input" else next(same, None)
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
        if name == "Input":
            shape, dtype = layer.batch_shape[1:], layer.dtype
            options = kind.tidy({"shape": list(shape), "dtype": dtype})
            return LayerSpec(kind=name, name=layer.name, options=options)

        def made(options: Mapping[str, Any]) -> Any:
            spec = LayerSpec(kind=kind.name, name=layer.name, options=options)
            return make(layer_call(spec)).get_config()

        options = _changed(kind, layer.get_config(), made)
        return LayerSpec(kind=kind.name, name=layer.name, options=options, inputs=inputs)
    except Exception as error:  # raised by Keras for options that a spec cannot hold
        raise ConfigurationError(f"{where} cannot be edited: {keras_text(error)}") from error


def _changed(
    kind: Kind, config: Mapping[str, Any], made: Callable[[Mapping[str, Any]], Any]
) -> dict[str, Any]:
    """The options for which `made`, the configuration that Keras makes of them, is `config`."""
    given = _options(kind, config)
    found = {n: value for n, value in given.items() if n in kind.required or n == "layer"}
    usual = _options(kind, made(found))
    found |= {n: value for n, value in given.items() if n in found or usual.get(n) != value}
    # Leave out options that Keras derives from others, such as strides from the pool size.
    whole = _plain(made(found))
    for name, value in list(found.items()):
        others = {key: each for key, each in found.items() if key != name}
        choices = [others] if name not in kind.required else []
        choices += [{**found, name: short} for short in _shorter(name, value)]
        same = (
            each for each in choices if _found(lambda each=each: _plain(made(each)), None) == whole
        )
        found = next(same, found)
    return found


def _shorter(name: str, value: Any) -> Iterator[Any]:
    """Shorter forms of an option, which may have the same meaning."""
    if name.endswith("_initializer") and isinstance(value, Mapping):
        yield snake_case(str(value["class_name"]))
    elif isinstance(value, list) and value and value.count(value[0]) == len(value):
        yield from (*_shorter(name, value[0]), value[0])


def _options(kind: Kind, config: Mapping[str, Any]) -> dict[str, Any]:
    """The options in a configuration of Keras."""
    found: dict[str, Any] = {}
    for name, value in _plain(config).items():
        weight, _, what = name.rpartition("_")
        inside: Any = value.get("config") if isinstance(value, Mapping) else None
        inside = inside if isinstance(inside, Mapping) else {}
        if name == "layer" and isinstance(kind, LayerKind) and kind.inner is not None:
            wrapped = str(value["class_name"])
            if wrapped == kind.inner or wrapped in CHOICES.get(kind.inner, ()):
                found |= {**_options(kind, inside), kind.inner: wrapped}
                continue
        if what == "constraint" and inside.get("axis") == 0:
            inside = {"max_norm": inside.get("max_value")}
        factors = {f"{weight}_{n}": x for n, x in inside.items() if x}
        if what in FACTORS and factors and all(kind.option(each) for each in factors):
            found |= factors
        elif name != "name" and (name != "attention_axes" or value not in (None, [], [1])):
            found[name] = value  # Keras replaces the default axes when it builds the layer
    return found


def _plain(value: Any, name: str = "") -> Any:
    """A configuration as JSON values, without what does not affect the computation."""
    if isinstance(value, Mapping):
        is_named = "trainable" in value or "learning_rate" in value
        left_out = _NOT_COPIED | ({"name"} if is_named else set())
        return {key: _plain(each, key) for key, each in value.items() if key not in left_out}
    if isinstance(value, list | tuple):
        # Some layers convert a single axis to a list when they are built.
        items = list(map(_plain, value))
        return items[0] if name == "axis" and len(items) == 1 else items
    # Drop digits beyond the precision of float32.
    return float(f"{value:.7g}") if isinstance(value, float) else value


# --- training


def _training(model: Any, spec: NetworkSpec) -> dict[str, Any]:
    """Return the task, outputs and optimizer; defaults for a model that is not compiled."""
    import keras

    compiled, optimizer = getattr(model, "_compile_config", None), getattr(model, "optimizer", None)
    config: Any = {} if compiled is None or optimizer is None else compiled.config
    if config.get("weighted_metrics"):
        raise ConfigurationError(
            f"the model {_name(model)!r} cannot be edited: it is compiled with weighted_metrics. "
            "Compile it with `metrics` alone to edit it."
        )
    names = output_names(model)
    keys = ("loss", "metrics", "loss_weights")
    named = {key: keras.tree.map_structure(_name_of, config.get(key)) for key in keys}
    by_output = (_of_outputs(key, named[key], names) for key in keys)
    tasks: list[Task] = []
    outputs: list[OutputSpec] = []
    for name, loss, metrics, weight in zip(names, *by_output, strict=True):
        known = loss_kind(loss or "")
        activation = last_activation(spec, name, spec.analysis.rows)
        tasks.append(known.tasks[0] if known else _TASKS.get(str(activation), "regression"))
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
        single = isinstance(value, list | tuple) and len(value) == 1
        whole = what == "metrics" and not (single and isinstance(value[0], list | tuple))
        return [value if whole or not single else value[0]]
    values = list(value) if isinstance(value, list | tuple) else [value] * len(names)
    if len(values) != len(names):
        raise ConfigurationError(
            f"`{what}` must have one entry for each of {len(names)} outputs. "
            f"Received: {len(values)}."
        )
    return values


def _name_of(value: Any) -> Any:
    """Return Keras' name of a loss or metric; names and weights are returned as they are."""
    import keras

    if value is None or isinstance(value, str | int | float):
        return value
    kind: Any = value if isinstance(value, type) or hasattr(value, "__code__") else type(value)
    where = f"the loss or metric {kind.__name__} cannot be edited"
    registered = str(keras.saving.get_registered_name(kind))
    if ">" not in registered and not kind.__module__.startswith("keras."):
        raise ConfigurationError(f"{where}: it is neither of Keras nor registered.")
    if kind is not value:
        made = _found(kind, None)  # without arguments
        difference = _difference(made, value) if made else "a required argument"
        # Keras numbers repeated names.
        names = {re.sub(r"_\d+$", "", each.name) for each in (made, value) if each}
        if not difference and isinstance(value, keras.Metric) and len(names) > 1:
            difference = f"name={value.name!r}"
        if difference:
            raise ConfigurationError(f"{where}: {difference} is not supported.")
    own = {f"sparkwright>{kind}": name for name, kind in OWN_METRICS.items()}
    return own.get(registered, registered if ">" in registered else plain_name(kind.__name__))


def _optimizer(optimizer: Any) -> OptimizerSpec:
    name = type(optimizer).__name__
    kind = next((kind for kind in optimizer_kinds() if kind.made_by is type(optimizer)), None)
    if kind is None:
        raise ConfigurationError(
            f"the optimizer {name} cannot be edited: this class is not supported."
        )

    def made(options: Mapping[str, Any], schedule: AbstractSchedule | None = None) -> Any:
        spec = OptimizerSpec(kind=kind.name, options=options, schedule=schedule)
        return make(optimizer_call(spec)).get_config()

    config, schedule = dict(optimizer.get_config()), None
    if isinstance(rate := config.get("learning_rate"), Mapping):
        highest, read = read_schedule(str(rate["class_name"]), rate["config"]) or (None, None)
        if read and _plain(made({"learning_rate": highest}, read)["learning_rate"]) == _plain(rate):
            config["learning_rate"], schedule = highest, read
    return OptimizerSpec(kind=kind.name, options=_changed(kind, config, made), schedule=schedule)


def _difference(made: Any, theirs: Any) -> str:
    """The first setting of the Keras object `theirs` that differs in `made`; "" if none."""
    mine, given = _plain(made.get_config()), _plain(theirs.get_config())
    changed = (n for n in given if n not in ("name", "dtype") and mine.get(n) != given[n])
    return next((f"{name}={given[name]!r:.80}" for name in changed), "")
