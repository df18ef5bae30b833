"""Overridden methods of a model's class, and the optimizers that its `train_step` uses."""

from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from sparkwright.errors import ConfigurationError

from .backend import Backend, backend_name
from .signature import Example, Signature, pack, signature_of

# Model -> optimizers that its traced `train_step` applies.
_used: "WeakKeyDictionary[Any, list[Any]]" = WeakKeyDictionary()


def overrides(model: Any, *names: str) -> bool:
    """Whether the model's class overrides any of these methods of keras.Model."""
    import keras

    kind: Any = type(model)
    return issubclass(kind, keras.Model) and any(
        getattr(kind, name) is not getattr(keras.Model, name) for name in names
    )


def has_own_train_step(model: Any) -> bool:
    """Whether the model overrides `train_step` or the metric methods that it calls."""
    return overrides(model, "train_step", "compute_metrics", "get_metrics_result", "metrics")


def has_own_test_step(model: Any) -> bool:
    """Whether the model overrides `test_step` or the metric methods that it calls."""
    return overrides(model, "test_step", "compute_metrics", "get_metrics_result", "metrics")


def backend_for(model: Any) -> Backend:
    """Return Keras' backend; check that it can train the model."""
    backend = backend_name()
    if backend == "jax" and overrides(model, "train_step", "test_step"):
        raise ConfigurationError(
            "an overridden `train_step` or `test_step` needs Keras on TensorFlow. Received: "
            f"{model.name!r} ({type(model).__name__}), with Keras on JAX. Set "
            "KERAS_BACKEND=tensorflow before Keras is imported, or override `compute_loss` instead."
        )
    texts = [x.name for x in getattr(model, "inputs", None) or () if str(x.dtype) == "string"]
    if backend == "jax" and texts:
        raise ConfigurationError(
            f"string inputs need Keras on TensorFlow. Received: {texts} of {model.name!r}, with "
            "Keras on JAX. Set KERAS_BACKEND=tensorflow before Keras is imported, or convert text "
            "to numbers before training."
        )
    return backend


def check_loss_weights(model: Any) -> None:
    """Check that no metrics were passed as `loss_weights`, the third argument of `compile`."""
    import keras

    compiled = getattr(getattr(model, "_compile_config", None), "config", {})
    given = compiled.get("loss_weights")
    if any(isinstance(each, str) or callable(each) for each in keras.tree.flatten(given)):
        raise ConfigurationError(
            "`loss_weights`, the third argument of `compile`, must be numbers. Received: "
            f"{given!r:.200}. Pass metrics by name: `model.compile(optimizer, loss, metrics=[…])`."
        )


def computes_own_loss(model: Any) -> bool:
    """Whether the model computes its own loss, so that labels have no fixed format."""
    return overrides(model, "train_step", "compute_loss")


def check_example_losses(model: Any) -> None:
    """Check that losses of single examples can be computed from the compiled loss."""
    check_loss_weights(model)
    if overrides(model, "test_step", "compute_loss"):
        raise ConfigurationError(
            "losses of single examples need a loss that the model was compiled with. Received: "
            f"{model.name!r} ({type(model).__name__}), which computes its own. Use `score`, or "
            "predict and compute the losses."
        )


def label_order(signature: Signature, given: Sequence[str]) -> list[str]:
    """The label names in the order of the outputs if the names match, else as given."""
    return list(signature.outputs) if set(given) == set(signature.outputs) else list(given)


def optimizers_of(model: Any) -> list[Any]:
    """The optimizers that training uses, `model.optimizer` first."""
    # Optimizers in attributes and nested models count if `trace` found that `train_step` applies
    # them.
    found, used = _candidates(model), _used.get(model)
    if not _has_others(model, found):
        return found
    return [each for each in found if (each.built if used is None else each in used)]


def must_be_traced(model: Any) -> bool:
    """Whether `train_step` must be traced to find the optimizers that it uses."""
    return not is_traced(model) and _has_others(model, _candidates(model))


def is_traced(model: Any) -> bool:
    """Whether `trace` was called on `model`."""
    return model in _used


def trace(model: Any, example: Example) -> None:
    """Trace `train_step` without running it, to find the optimizers and build their variables."""
    # Raises whatever `train_step` raises.
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
    """The main optimizer, then those that an overridden `train_step` may use, in order."""
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
    """Yield an optimizer and its inner ones (LossScaleOptimizer, MultiOptimizer); none for None."""
    if optimizer is not None:
        yield optimizer
        yield from optimizers(getattr(optimizer, "inner_optimizer", None))
        for each in getattr(optimizer, "optimizers", ()):
            yield from optimizers(each)


def learning_rate_of(model: Any) -> float | None:
    """The learning rate that callbacks read and set; None for a schedule or no optimizer."""
    *_, optimizer = [None, *optimizers(getattr(model, "optimizer", None))]
    rate: Any = getattr(optimizer, "_learning_rate", None)
    return float(rate) if hasattr(rate, "assign") else None
