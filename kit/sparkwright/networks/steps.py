"""What a model's own class does in training: its steps, and the optimizers that they use."""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sparkwright.errors import ConfigurationError

from .backend import Backend, backend_name
from .signature import Example, Signature, pack, signature_of

# The optimizers that a traced `train_step` has applied.
_used: "WeakKeyDictionary[Any, list[Any]]" = WeakKeyDictionary()


def overrides(model: Any, *names: str) -> bool:
    """Whether the model's class replaces one of these methods of keras.Model."""
    import keras

    kind: Any = type(model)
    return issubclass(kind, keras.Model) and any(
        getattr(kind, name) is not getattr(keras.Model, name) for name in names
    )


def has_own_train_step(model: Any) -> bool:
    """Whether Keras' `train_step`, or what it calls, is replaced: each minibatch calls it."""
    return overrides(model, "train_step", "compute_metrics", "get_metrics_result", "metrics")


def has_own_test_step(model: Any) -> bool:
    """Likewise of `test_step`, for evaluation and validation."""
    return overrides(model, "test_step", "compute_metrics", "get_metrics_result", "metrics")


def backend_for(model: Any) -> Backend:
    """Return the backend of Keras, of this process and of workers, which must be able to train it.

    Raises:
        ConfigurationError: if that is neither TensorFlow nor JAX; on JAX, if the model has a step
            of its own, or inputs of text.
    """
    backend = backend_name()
    if backend == "jax" and overrides(model, "train_step", "test_step"):
        raise ConfigurationError(
            "a `train_step` or `test_step` of the model's own needs Keras on TensorFlow. Received: "
            f"{model.name!r} ({type(model).__name__}), with Keras on JAX. Set "
            "KERAS_BACKEND=tensorflow before Keras is imported, or override `compute_loss` instead."
        )
    texts = [x.name for x in getattr(model, "inputs", None) or () if str(x.dtype) == "string"]
    if backend == "jax" and texts:
        raise ConfigurationError(
            f"inputs of text need Keras on TensorFlow. Received: {texts} of {model.name!r}, with "
            "Keras on JAX. Set KERAS_BACKEND=tensorflow before Keras is imported, or turn text "
            "into numbers before training."
        )
    return backend


def check_loss_weights(model: Any) -> None:
    """Refuse metrics in the place of `loss_weights`, the third argument of Keras' `compile`.

    Raises:
        ConfigurationError: showing what was given.
    """
    import keras

    compiled = getattr(getattr(model, "_compile_config", None), "config", {})
    given = compiled.get("loss_weights")
    if any(isinstance(each, str) or callable(each) for each in keras.tree.flatten(given)):
        raise ConfigurationError(
            "`loss_weights`, the third argument of `compile`, must be numbers. Received: "
            f"{given!r:.200}. Pass metrics by name: `model.compile(optimizer, loss, metrics=[…])`."
        )


def takes_any_labels(model: Any) -> bool:
    """Whether the model itself decides what labels mean, or does without."""
    return overrides(model, "train_step", "compute_loss")


def check_example_losses(model: Any) -> None:
    """Refuse to compute the losses of single examples of a model that computes its own.

    Raises:
        ConfigurationError: if it does; see also `check_loss_weights`.
    """
    check_loss_weights(model)
    if overrides(model, "test_step", "compute_loss"):
        raise ConfigurationError(
            "losses of single examples need a loss that the model was compiled with. Received: "
            f"{model.name!r} ({type(model).__name__}), which computes its own. Use `score`, or "
            "predict and compute the losses."
        )


def label_order(signature: Signature, given: Sequence[str]) -> list[str]:
    """The names of labels in the order of the outputs if they are the outputs', else as given."""
    return list(signature.outputs) if set(given) == set(signature.outputs) else list(given)


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers of the model that training uses, the main one first.

    Those of attributes, and of models within, count where `train_step` applies them; `trace`
    finds out.
    """
    found, used = _candidates(model), _used.get(model)
    if not _has_others(model, found):
        return found
    return [each for each in found if (each.built if used is None else each in used)]


def must_be_traced(model: Any) -> bool:
    """Whether only a trace of `train_step` finds the optimizers that it uses."""
    return not is_traced(model) and _has_others(model, _candidates(model))


def is_traced(model: Any) -> bool:
    """Whether `trace` has found the optimizers that `model` uses."""
    return model in _used


def trace(model: Any, example: Example) -> None:
    """Trace `train_step` once, which computes nothing, to find optimizers and build their state.

    Args:
        model: built.
        example: with the columns of the data.

    Raises:
        Whatever `train_step` raises.
    """
    import keras
    import tensorflow as tf

    signature = signature_of(model)
    x, y, weights = _symbolic_data(signature, example)
    watched, applied = _candidates(model), dict[int, Any]()
    for each in watched:
        each.apply = _watching(each, applied)

    def step(x: Any, y: Any, weights: Any) -> None:
        model.train_step(keras.utils.pack_x_y_sample_weight(x, y, weights))

    try:
        tf.function(step, autograph=False).get_concrete_function(x, y, weights)
    finally:
        for each in watched:
            del each.apply
    _used[model] = list(applied.values())


def _watching(optimizer: Any, applied: dict[int, Any]) -> Any:
    apply = optimizer.apply

    def watched(*args: Any, **options: Any) -> Any:
        applied[id(optimizer)] = optimizer
        return apply(*args, **options)

    return watched


def _symbolic_data(signature: Signature, example: Example) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    columns = {name: tf.TensorSpec([None, *shape], dtype) for name, dtype, shape in example.columns}
    features, labels = [*example.group("features")], [*example.group("labels")]
    names = [*signature.inputs]
    order = names if set(names) == set(features) else features
    x = pack(signature.input_form, names, [columns[f"features/{name}"] for name in order])
    outputs = label_order(signature, labels)
    y = pack(signature.output_form, outputs, [columns[f"labels/{name}"] for name in outputs])
    weights = None
    if "weights" in columns:
        each = [columns["weights"]] * max(1, len(outputs))
        weights = pack(signature.output_form, outputs or ["weights"], each)
    return x, y, weights


def _has_others(model: Any, found: Sequence[Any]) -> bool:
    return any(each is not getattr(model, "optimizer", None) for each in found)


def _candidates(model: Any) -> list[Any]:
    """The main optimizer, and those that only the user's own `train_step` can use, in order."""
    import keras

    main = getattr(model, "optimizer", None)
    held: list[Any] = [main]
    if overrides(model, "train_step"):
        held += keras.tree.flatten({n: v for n, v in vars(model).items() if not n.startswith("_")})
        held += [getattr(x, "optimizer", None) for x in model._flatten_layers(include_self=False)]
    found = {id(each): each for each in held if isinstance(each, keras.optimizers.Optimizer)}
    inner = {id(part) for each in found.values() for part in optimizers(each) if part is not each}
    return [each for each in found.values() if each is main or id(each) not in inner]


def optimizers(optimizer: Any) -> Iterator[Any]:
    """An optimizer, then those within it, as in Loss-Scale- and MultiOptimizer; None: nothing."""
    if optimizer is not None:
        yield optimizer
        yield from optimizers(getattr(optimizer, "inner_optimizer", None))
        for each in getattr(optimizer, "optimizers", ()):
            yield from optimizers(each)


def learning_rate_of(model: Any) -> float | None:
    """The learning rate that callbacks read and set; None: it is a schedule, or no optimizer's."""
    *_, optimizer = [None, *optimizers(getattr(model, "optimizer", None))]
    rate: Any = getattr(optimizer, "_learning_rate", None)
    return float(rate) if hasattr(rate, "assign") else None
