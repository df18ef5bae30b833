"""A replica on TensorFlow: a compiled multi-step."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.steps import has_own_test_step, has_own_train_step, overrides

from ._batch_layout import BatchLayout
from ._replica_base import (
    Columns,
    Replica,
    XlaChoice,
    example_losses,
    last_rate,
    loss_of,
    outputs_of,
)

Arrays = list[NDArray[Any]]


class TensorFlowReplica(Replica):
    """A built and compiled model that trains several minibatches per call.

    `model.fit` spends more than half of a small step in Python; here a `tf.while_loop` runs all
    minibatches of a call inside one compiled function, fed with arrays of shape
    (steps, batch, ...). Shapes of steps and batch are left open, so a shorter last minibatch is
    no new trace.
    """

    def __init__(self, definition: ModelDefinition, *, xla: XlaChoice = "auto") -> None:
        """See `Replica`."""
        super().__init__(definition)
        self.own_test_step = has_own_test_step(self.model)
        self._xla: XlaChoice = xla
        self.uses_xla = {"on": True, "off": False}.get(xla)
        self._train_calls: dict[Any, Callable[..., Any]] = {}
        self._evaluate_calls: dict[Any, Callable[..., Any]] = {}
        self._predict_calls: dict[Any, Callable[..., Any]] = {}
        self._losses_calls: dict[Any, Callable[..., Any]] = {}
        self._update_share: Any = None  # a variable, once updates are to be scaled

    @property
    def device(self) -> tuple[Literal["CPU", "GPU"], int]:
        """See `Replica`."""
        import tensorflow as tf

        threads = tf.config.threading.get_intra_op_parallelism_threads() or os.cpu_count() or 1
        return ("GPU" if tf.config.list_logical_devices("GPU") else "CPU"), threads

    def share_updates(self, share: float | None) -> None:
        """See `Replica`."""
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
        """See `Replica`."""
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
        return losses.numpy(), {name: float(value) for name, value in metrics.items()}

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
        logged: list[str] = []  # by a step of the model's own

        def plain_step(arrays: Sequence[Any]) -> Any:
            x, y, sample_weight, mask = layout.unpack(arrays)
            with tf.GradientTape() as tape:
                predictions = outputs_of(model, x, mask, training=True)
                loss = model._compute_loss(
                    x=x, y=y, y_pred=predictions, sample_weight=sample_weight, training=True
                )
                scaled = optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, trainable)
            optimizer.apply_gradients(zip(gradients, trainable, strict=True))
            if layout.has_metrics:
                model.compute_metrics(x, y, predictions, sample_weight=sample_weight)
            return tf.cast(loss, tf.float32)

        def own_step(arrays: Sequence[Any]) -> Any:
            loss, logs = own(arrays)
            logged[:] = logs
            return tf.stack([loss, *logs.values()])

        def step(arrays: Sequence[Any]) -> Any:
            before = [] if share is None else [tf.identity(v.value) for v in trainable]
            result = own_step(arrays) if is_own else plain_step(arrays)
            for variable, old in zip(trainable, before, strict=False):  # none with `share` None
                variable.assign(old + convert(share, old.dtype) * (variable.value - old))
            return result

        def steps(arrays: Sequence[Any]) -> Any:
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
                    metrics = {
                        name: tf.cast(tf.identity(value), tf.float32)
                        for name, value in model.get_metrics_result().items()
                        if name != "loss"
                    }
            return losses, metrics, rate

        return tf.function(steps, autograph=False, jit_compile=xla, input_signature=[signature])

    def _choose_xla(self, layout: BatchLayout, arrays: Arrays) -> bool:
        """XLA or not: off on a CPU (measured once for all), otherwise tried on these minibatches.

        The trial trains real steps and then puts every variable back.
        """
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
        self.reset_metrics()
        return seconds[True] < seconds[False]

    # -- evaluation -------------------------------------------------------------------------

    def loss(self, layout: BatchLayout, columns: Columns) -> float:
        """See `Replica`."""
        call = self._call(self._evaluate_calls, self._compile_evaluate, layout)
        return float(call([columns[name] for name in layout.order]))

    def predict(self, layout: BatchLayout, columns: Columns) -> Arrays:
        """See `Replica`."""
        call = self._call(self._predict_calls, self._compile_predict, layout)
        return [output.numpy() for output in call([columns[name] for name in layout.order])]

    def losses(
        self, layout: BatchLayout, columns: Columns, *, regularization: bool
    ) -> NDArray[np.float32]:
        """See `Replica`."""
        key = (layout.open_key, regularization)
        if key not in self._losses_calls:
            self._losses_calls[key] = self._compile_losses(layout, regularization=regularization)
        return self._losses_calls[key]([columns[name] for name in layout.order]).numpy()

    def _call(
        self,
        known: dict[Any, Callable[..., Any]],
        compiled: Callable[[BatchLayout], Callable[..., Any]],
        layout: BatchLayout,
    ) -> Callable[..., Any]:
        if layout.open_key not in known:
            known[layout.open_key] = compiled(layout)
        return known[layout.open_key]

    def _compile_predict(self, layout: BatchLayout) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]

        def predict(arrays: Sequence[Any]) -> Any:
            x, _, _, mask = layout.unpack(arrays)
            return tf.nest.flatten(outputs_of(model, x, mask, training=False))

        return tf.function(predict, autograph=False, input_signature=[signature])

    def _compile_evaluate(self, layout: BatchLayout) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]
        own = _own_step(model, model.test_step, layout)

        def evaluate(arrays: Sequence[Any]) -> Any:
            if self.own_test_step:
                return own(arrays)[0]
            if not any(name.startswith("labels/") for name in layout.order):
                return tf.constant(np.nan, tf.float32)
            return tf.cast(loss_of(model, layout, arrays, training=False), tf.float32)

        return tf.function(evaluate, autograph=False, input_signature=[signature])

    def _compile_losses(self, layout: BatchLayout, *, regularization: bool) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]

        def over(function: Callable[[Any], Any], given: Any) -> Any:
            return tf.map_fn(function, given, fn_output_signature=tf.float32)

        def losses(arrays: Sequence[Any]) -> Any:
            return example_losses(model, layout, arrays, over, regularization=regularization)

        # The compiled loss is built when it is first used, with all labels and outputs at hand.
        self._call(self._evaluate_calls, self._compile_evaluate, layout)
        return tf.function(losses, autograph=False, input_signature=[signature])


def _own_step(
    model: Any, step: Callable[[Any], Any], layout: BatchLayout
) -> Callable[[Sequence[Any]], tuple[Any, dict[str, Any]]]:
    """`step`, a `train_step` or `test_step`, as a function of arrays.

    It returns the loss of the minibatch, float32, and the other scalars that `step` returned. The
    loss is the entry "loss", or else the first one. Where that is the mean of a keras.metrics.Mean
    of this name, which goes over all minibatches so far, it is what this minibatch added to it.
    """
    import keras
    import tensorflow as tf

    def stepped(arrays: Sequence[Any]) -> tuple[Any, dict[str, Any]]:
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
        if name in means:
            total, count = before[name]
            added = means[name].count.value - count
            share = (means[name].total.value - total) / tf.where(added > 0, added, 1.0)
            loss = tf.where(added > 0, tf.cast(share, tf.float32), loss)
        others = {key: tf.convert_to_tensor(value) for key, value in found.items()}
        scalars = {key: value for key, value in others.items() if value.shape.rank == 0}
        return loss, {key: tf.cast(value, tf.float32) for key, value in scalars.items()}

    return stepped
