"""A replica on TensorFlow, with a compiled function for several steps."""

import math
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.backend import backend_name
from sparkwright.networks.steps import has_own_test_step, has_own_train_step, overrides

from ._batch_layout import BatchLayout
from ._replica_base import Arrays, Columns, Replica, XlaChoice, last_rate, loss_of
from .metric_values import numbers_of


def make_replica(definition: ModelDefinition, *, xla: XlaChoice = "auto") -> Replica:
    """Build a replica on this process' Keras backend."""
    if backend_name() == "jax":
        from ._jax_replica import JaxReplica

        return JaxReplica(definition)
    return TensorFlowReplica(definition, xla=xla)


class TensorFlowReplica(Replica):
    """A replica that trains all minibatches of a call by a compiled `tf.while_loop`."""

    # `model.fit` spends more than half of a small step in Python. Arrays are (steps, batch, ...),
    # both variable, so a shorter last minibatch needs no retracing.

    def __init__(self, definition: ModelDefinition, *, xla: XlaChoice = "auto") -> None:
        super().__init__(definition)
        self.own_test_step = has_own_test_step(self.model)
        self._xla: XlaChoice = xla
        self.uses_xla = {"on": True, "off": False}.get(xla)
        self._train_calls: dict[Any, Callable[..., Any]] = {}
        self._infer_calls: dict[Any, Callable[..., Any]] = {}
        self._update_share: Any = None  # a variable, or None if updates are not scaled

    @property
    def device(self) -> tuple[Literal["CPU", "GPU"], int]:
        import tensorflow as tf

        threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count() or 1
        return ("GPU" if tf.config.list_logical_devices("GPU") else "CPU"), threads

    def share_updates(self, share: float | None) -> None:
        import tensorflow as tf

        if (share is None) != (self._update_share is None):
            self._train_calls.clear()
            first: Any = share
            self._update_share = None if share is None else tf.Variable(first, dtype=tf.float32)
        if share is not None:
            self._update_share.assign(share)

    # -- training ---------------------------------------------------------------------------

    def train(
        self, layout: BatchLayout, columns: Columns
    ) -> tuple[NDArray[np.float32], dict[str, float]]:
        arrays = [columns[name] for name in layout.order]
        known = len(self._train_calls)
        if layout.has_texts:
            self.uses_xla = False
        if self.uses_xla is None:
            self.uses_xla = self._choose_xla(layout, arrays)
        call = self._train_call(layout, xla=self.uses_xla)
        self.has_traced = len(self._train_calls) > known
        losses, metrics, rate = call(arrays)
        self.learning_rate = float(rate)
        return losses.numpy(), {name: float(value) for name, value in numbers_of(metrics)}

    def _train_call(self, layout: BatchLayout, *, xla: bool) -> Callable[..., Any]:
        key = (layout.key, xla)
        if key not in self._train_calls:
            self._train_calls[key] = self._compile_train(layout, xla=xla)
        return self._train_calls[key]

    def _compile_train(self, layout: BatchLayout, *, xla: bool) -> Callable[..., Any]:
        import tensorflow as tf

        model, optimizer = self.model, self._optimizers[0]
        trainable: list[Any] = model.trainable_variables
        share = self._update_share
        convert: Any = tf.cast
        signature = [tf.TensorSpec([None, None, *shape], dtype) for dtype, shape in layout.specs]
        is_own = has_own_train_step(model)
        own = _own_step(model, model.train_step, layout)
        logged: list[str] = []  # names that a custom step returns

        def plain_step(arrays: Arrays) -> Any:
            with tf.GradientTape() as tape:
                loss = loss_of(model, layout, arrays, training=True)
                scaled = optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, trainable)
            optimizer.apply_gradients(zip(gradients, trainable, strict=True))
            return tf.cast(loss, tf.float32)

        def own_step(arrays: Arrays) -> Any:
            loss, logs = own(arrays)
            logged[:] = logs
            return tf.stack([loss, *logs.values()])

        def step(arrays: Arrays) -> Any:
            before = [] if share is None else [tf.identity(v.value) for v in trainable]
            result = own_step(arrays) if is_own else plain_step(arrays)
            for variable, old in zip(trainable, before, strict=False):  # none with `share` None
                variable.assign(old + convert(share, old.dtype) * (variable.value - old))
            return result

        def steps(arrays: Arrays) -> Any:
            count = tf.shape(arrays[0])[0]

            def body(i: Any, losses: Any) -> Any:
                return i + 1, losses.write(i, step([array[i] for array in arrays]))

            losses = tf.TensorArray(tf.float32, size=count, element_shape=None if is_own else [])
            _, losses = tf.while_loop(lambda i, _: i < count, body, (tf.constant(0), losses))
            losses = losses.stack()
            metrics: dict[str, Any] = {}
            with tf.control_dependencies([losses]):
                rate: Any = tf.reshape(convert(last_rate(optimizer), tf.float32), [])
                if is_own:
                    metrics = {name: losses[-1, i] for i, name in enumerate(logged, 1)}
                    losses = losses[:, 0]
                elif layout.has_metrics:
                    found = model.get_metrics_result()
                    metrics = {name: found[name] for name in found if name != "loss"}
                    metrics = tf.nest.map_structure(
                        lambda value: tf.cast(tf.identity(value), tf.float32), metrics
                    )
            return losses, metrics, rate

        return tf.function(steps, autograph=False, jit_compile=xla, input_signature=[signature])

    def _choose_xla(self, layout: BatchLayout, arrays: Arrays) -> bool:
        """Return whether to use XLA: not on a CPU, otherwise as measured on these minibatches."""
        import tensorflow as tf

        if self._xla == "auto" and not tf.config.list_logical_devices("GPU"):
            return False
        vector = self.state.read(updater=True)
        extras = self.state.read_extras()
        seconds: dict[bool, float] = {}
        for xla in (False, True):
            try:
                call = self._train_call(layout, xla=xla)
                call(arrays)  # traces and compiles
                started = time.perf_counter()
                for _ in range(3):
                    call(arrays)[0].numpy()
                seconds[xla] = time.perf_counter() - started
            except tf.errors.OpError:
                seconds[xla] = np.inf  # an operation that XLA cannot compile
        self.state.write(vector)
        self.state.write_extras(extras)
        self.model.reset_metrics()
        return seconds[True] < seconds[False]

    # -- evaluation -------------------------------------------------------------------------

    def loss(self, layout: BatchLayout, columns: Columns) -> tuple[float, float]:
        if not self.own_test_step:
            return super().loss(layout, columns)

        def compute(arrays: Arrays) -> Any:
            return _own_step(self.model, self.model.test_step, layout)(arrays)[0]

        rows = len(columns[layout.order[0]])
        return float(self._infer("loss", compute, layout, columns)), float(rows)

    def _infer(
        self, name: str, function: Callable[[Arrays], Any], layout: BatchLayout, columns: Columns
    ) -> Any:
        import tensorflow as tf

        key = (name, layout.open_key)
        if key not in self._infer_calls:
            signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]
            self._infer_calls[key] = tf.function(
                function, autograph=False, input_signature=[signature]
            )
        found = self._infer_calls[key]([columns[name] for name in layout.order])
        return tf.nest.map_structure(lambda tensor: tensor.numpy(), found)

    def _over(self, function: Callable[[Any], Any], given: Any) -> Any:
        import tensorflow as tf

        return tf.map_fn(function, given, fn_output_signature=tf.float32)


def _own_step(
    model: Any, step: Callable[[Any], Any], layout: BatchLayout
) -> Callable[[Arrays], tuple[Any, dict[str, Any]]]:
    """Wrap a `train_step` or `test_step` as a function of arrays; return loss and other scalars."""
    import keras
    import tensorflow as tf

    def stepped(arrays: Arrays) -> tuple[Any, dict[str, Any]]:
        means = {m.name: m for m in model.metrics if isinstance(m, keras.metrics.Mean)}
        if not overrides(model, step.__name__):  # Keras' own, whatever `metrics` returns
            means["loss"] = model._loss_tracker
        before = {
            name: (tf.identity(mean.total.value), tf.identity(mean.count.value))
            for name, mean in means.items()
        }
        logs: Any = step(layout.data(arrays))
        found = dict(logs) if isinstance(logs, Mapping) else {"loss": logs}
        if not found:
            raise ConfigurationError(
                f"`{step.__name__}` must return a dict with the loss, or what else is to be "
                f"logged first. Received: {found} of {type(model).__name__}."
            )
        name = "loss" if "loss" in {*found, *means} else next(iter(found))
        loss: Any = found.pop(name, math.nan)
        loss = tf.cast(loss, tf.float32)
        # Of this minibatch alone; the metric is the mean of all so far.
        if name in means:
            total, count = before[name]
            added = means[name].count.value - count
            share = (means[name].total.value - total) / tf.where(added > 0, added, 1.0)
            loss = tf.where(added > 0, tf.cast(share, tf.float32), loss)
        others = tf.nest.map_structure(tf.convert_to_tensor, found)
        return loss, {key: tf.cast(value, tf.float32) for key, value in numbers_of(others)}

    return stepped
