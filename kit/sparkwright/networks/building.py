"""Prepare a model for a run: call its builder function, create its variables, check its steps."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from sparkwright.configuration import Configuration
from sparkwright.errors import ConfigurationError

from .signature import (
    Example,
    Shape,
    example_from,
    example_of,
    has_call,
    is_graph,
    is_known,
    pack,
    remember,
    signature_of,
    symbolic,
)
from .steps import (
    backend_for,
    check_loss_weights,
    is_traced,
    must_be_traced,
    overrides,
    trace,
)

Builder = Callable[[], Any]
REMEDY = (
    "Give the class a complete `get_config` (and, if it overrides `compile`, "
    "`get_compile_config` and `compile_from_config`); or pass a function that builds and compiles "
    "the model instead of the model."
)

_builders: "WeakKeyDictionary[Any, Builder]" = WeakKeyDictionary()


def model_of(given: Any) -> Any:
    """Return `given`, or the model that the function `given` builds and compiles."""
    import keras

    if isinstance(given, keras.Model):
        return given
    kind: type[Any] = type(given)
    if issubclass(kind, Configuration) and hasattr(kind, "build"):  # a NetworkSpec
        return given.build()
    model = given() if callable(given) else given
    if not isinstance(model, keras.Model):
        raise ConfigurationError(
            "`model` must be a keras.Model, a NetworkSpec, or a function without arguments that "
            "builds and compiles one. Received: "
            f"{'a function of a ' * callable(given)}{type(model).__name__}."
        )
    _builders[model] = given
    return model


def builder_of(model: Any) -> Builder | None:
    """The user's function that built `model`, or None."""
    return _builders.get(model)


def serialize(model: Any) -> dict[str, Any] | None:
    """Serialize `model` and its compile settings; None if only a user's function builds it."""
    import keras

    try:
        described: Any = keras.saving.serialize_keras_object(model)
    except (TypeError, ValueError, NotImplementedError) as error:
        if builder_of(model) is not None:
            return None
        raise ConfigurationError(
            f"the model {model.name!r} cannot be sent to workers, because Keras cannot serialize "
            f"it: {error} {REMEDY}"
        ) from error
    return described


def prepare(model: Any, layout: Callable[[], Mapping[str, tuple[Any, Shape]]]) -> None:
    """Create all variables of a compiled model, as Keras does at the start of `fit`."""
    # `layout`, the data's `DataSet.layout`, is called only if the input types are unknown.
    backend_for(model)
    traced = must_be_traced(model)
    if traced or not (is_graph(model) or (is_known(model) and is_built(model))):
        serialize(model)  # raises before Spark reads data
        columns = {name: (str(dtype), shape) for name, (dtype, shape) in layout().items()}
        complete(model, example_from(model, columns), traced=traced)
    if not (overrides(model, "train_step") or signature_of(model).outputs):
        raise ConfigurationError(
            "`call` must take its inputs as one argument: an array, a list or a dict; and "
            f"TensorFlow must be able to trace it. Received: {model.name!r} "
            f"({type(model).__name__}), which violates one of these rules."
        )


def complete(model: Any, example: Example, *, traced: bool) -> None:
    """Create all variables of a model from `example`; `traced` finds optimizers in `train_step`."""
    remember(model, example)
    where = f"of {model.name!r} ({type(model).__name__})"
    if not is_built(model):
        try:
            _build(model, example)
        except Exception as error:  # raised by user code
            raise ConfigurationError(
                f"`call` {where} must take the data's features. Received: "
                f"{example.group('features')}, with which it fails: {error}"
            ) from error
    if traced or not (has_call(model) or is_built(model)):
        try:
            trace(model, example)
        except Exception as error:  # raised by user code
            raise ConfigurationError(
                f"TensorFlow must be able to trace `train_step` {where}. Received: one that "
                f"fails: {error}"
            ) from error


def example_as_json(model: Any) -> dict[str, Any] | None:
    """The input types to build `model` from, JSON-serializable; None if none are needed."""
    if not is_known(model) or (is_graph(model) and not is_traced(model)):
        return None
    example = example_of(model)
    return {"form": example.form, "columns": example.columns, "traced": is_traced(model)}


def example_from_json(found: Mapping[str, Any]) -> Example:
    """The inverse of `example_as_json`."""
    columns = ((str(name), str(dtype), tuple(shape)) for name, dtype, shape in found["columns"])
    return Example(form=found["form"], columns=tuple(columns))


def is_built(model: Any) -> bool:
    """Whether all layers are built."""
    return all(layer.built for layer in model._flatten_layers())


def parameter_count(model: Any) -> int:
    """Return the number of elements of the model's weights."""
    if not model.built:
        raise ConfigurationError(
            "a network must be built before its parameters are counted, as for an evaluation or a "
            f"prediction. Received: {model.name!r} ({type(model).__name__}), whose input shapes "
            "are unknown. Start it with a `keras.Input`, call `model.build`, or train it first."
        )
    return int(model.count_params())


def check_steps(model: Any, *, validates: bool) -> None:
    """Check that a run can train, and with `validates` also validate, the model."""
    check_loss_weights(model)
    wanted = ["train_step", *(["test_step"] if validates else [])]
    for step in wanted:
        if not has_call(model) and not overrides(model, step):
            raise ConfigurationError(
                f"a model must implement `call` or `{step}`. Received: "
                f"{model.name!r} ({type(model).__name__}) with neither. Add one"
                f"{', or leave `validation` out' if step == 'test_step' else ''}."
            )


def _build(model: Any, example: Example) -> None:
    if not has_call(model):
        (_, shape), *_ = example.group("features").values()
        with warnings.catch_warnings():  # `train_step` creates the variables
            warnings.simplefilter("ignore", UserWarning)
            model.build((None, *shape))
        return
    try:
        symbolic(model, example)
    except Exception:  # `call` may not support symbolic tensors
        specs = example.group("features")
        zeros = [np.zeros([1, *(n or 1 for n in shape)], dtype) for dtype, shape in specs.values()]
        model(pack(example.form, list(specs), zeros), training=False)
