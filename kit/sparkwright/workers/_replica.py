"""A replica on TensorFlow: a compiled multi-step."""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks import ModelDefinition

from ._batch_layout import BatchLayout
from ._replica_base import Columns, Replica, XlaChoice, last_rate, without_gaps

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
        self._xla: XlaChoice = xla
        self.uses_xla = {"on": True, "off": False}.get(xla)
        self._train_calls: dict[Any, Callable[..., Any]] = {}
        self._evaluate_calls: dict[Any, Callable[..., Any]] = {}
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

        model, optimizer = self.model, self.model.optimizer
        trainable: list[Any] = model.trainable_variables
        share = self._update_share
        convert: Any = tf.cast
        signature = [tf.TensorSpec([None, None, *shape], dtype) for dtype, shape in layout.specs]

        def step(arrays: Sequence[Any]) -> Any:
            x, y, sample_weight, mask = layout.unpack(arrays)
            with tf.GradientTape() as tape:
                keywords = {} if mask is None else {"mask": mask}
                predictions = model(x, training=True, **keywords)
                loss = model.compute_loss(
                    x=x, y=y, y_pred=predictions, sample_weight=sample_weight, training=True
                )
                scaled = optimizer.scale_loss(loss)
            gradients = tape.gradient(scaled, trainable)
            before = [] if share is None else [tf.identity(v.value) for v in trainable]
            optimizer.apply_gradients(zip(gradients, trainable, strict=True))
            for variable, old in zip(trainable, before, strict=False):  # none with `share` None
                variable.assign(old + convert(share, old.dtype) * (variable.value - old))
            if layout.has_metrics:
                model.compute_metrics(x, y, predictions, sample_weight=sample_weight)
            return tf.cast(loss, tf.float32)

        def steps(arrays: Sequence[Any]) -> Any:
            count = tf.shape(arrays[0])[0]

            def body(i: Any, losses: Any) -> Any:
                return i + 1, losses.write(i, step([array[i] for array in arrays]))

            losses = tf.TensorArray(tf.float32, size=count, element_shape=[])
            _, losses = tf.while_loop(lambda i, _: i < count, body, (tf.constant(0), losses))
            losses = losses.stack()
            metrics: dict[str, Any] = {}
            with tf.control_dependencies([losses]):
                rate: Any = tf.reshape(convert(last_rate(optimizer), tf.float32), [])
                if layout.has_metrics:
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

    def evaluate(self, layout: BatchLayout, columns: Columns) -> tuple[float, list[NDArray[Any]]]:
        """See `Replica`."""
        loss, outputs = self._evaluate_call(layout)([columns[name] for name in layout.order])
        return float(loss), [output.numpy() for output in outputs]

    def losses(
        self, layout: BatchLayout, columns: Columns, *, regularization: bool
    ) -> NDArray[np.float32]:
        """See `Replica`."""
        key = (layout.open_key, regularization)
        if key not in self._losses_calls:
            self._losses_calls[key] = self._compile_losses(layout, regularization=regularization)
        return self._losses_calls[key]([columns[name] for name in layout.order]).numpy()

    def _evaluate_call(self, layout: BatchLayout) -> Callable[..., Any]:
        if layout.open_key not in self._evaluate_calls:
            self._evaluate_calls[layout.open_key] = self._compile_evaluate(layout)
        return self._evaluate_calls[layout.open_key]

    def _compile_evaluate(self, layout: BatchLayout) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]

        def evaluate(arrays: Sequence[Any]) -> Any:
            x, y, sample_weight, mask = layout.unpack(arrays)
            keywords = {} if mask is None else {"mask": mask}
            predictions = model(x, training=False, **keywords)
            loss = tf.constant(np.nan, tf.float32)
            if y is not None:
                loss = model.compute_loss(
                    x=x, y=y, y_pred=predictions, sample_weight=sample_weight, training=False
                )
                if layout.has_metrics:
                    model.compute_metrics(x, y, predictions, sample_weight=sample_weight)
            return tf.cast(loss, tf.float32), tf.nest.flatten(predictions)

        return tf.function(evaluate, autograph=False, input_signature=[signature])

    def _compile_losses(self, layout: BatchLayout, *, regularization: bool) -> Callable[..., Any]:
        import keras
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]

        def losses(arrays: Sequence[Any]) -> Any:
            x, y, sample_weight, mask = layout.unpack(arrays)
            keywords = {} if mask is None else {"mask": mask}
            predictions = model(x, training=False, **keywords)
            outputs = tf.nest.flatten(predictions)
            masks = [getattr(output, "_keras_mask", None) for output in outputs]
            given = {
                "y": y,
                "outputs": outputs,
                "masks": {str(i): mask for i, mask in enumerate(masks) if mask is not None},
                "weights": without_gaps(sample_weight),
            }

            # The network runs once for all; how labels and outputs become a number is the loss'
            # own affair, so it is asked about one example at a time.
            def loss_of(one: Any) -> Any:
                one = tf.nest.map_structure(lambda part: part[None], one)
                for i, its_mask in one["masks"].items():
                    one["outputs"][int(i)]._keras_mask = its_mask
                structured: Any = tf.nest.pack_sequence_as(predictions, one["outputs"])
                weights = None if sample_weight is None else one["weights"]
                loss = model._compile_loss(one["y"], structured, weights)
                return tf.cast(loss, tf.float32)

            found = tf.map_fn(loss_of, given, fn_output_signature=tf.float32)
            terms: Any = [keras.ops.sum(term) for term in model.losses] if regularization else []
            return found + sum(tf.cast(term, tf.float32) for term in terms)

        # The compiled loss is built when it is first used, with all labels and outputs at hand.
        self._evaluate_call(layout)
        return tf.function(losses, autograph=False, input_signature=[signature])
