"""One worker's copy of the network: a compiled multi-step, and its state as flat vectors."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError
from sparkwright.networks import ModelDefinition, ModelState
from sparkwright.networks.learning_rate import learning_rate_of
from sparkwright.networks.steps import has_own_test_step, has_own_train_step, optimizers_of
from sparkwright.timeline import PhaseCode

from ._batch_layout import BatchLayout
from ._flat import SparseSubtraction, subtract_from

XlaChoice = Literal["auto", "on", "off", "measure"]
Arrays = list[NDArray[Any]]


class Replica:
    """A built and compiled model that trains several minibatches per call.

    `model.fit` spends more than half of a small step in Python; here a `tf.while_loop` runs all
    minibatches of a call inside one compiled function, fed with arrays of shape
    (steps, batch, ...). Shapes of steps and batch are left open, so a shorter last minibatch is
    no new trace.

    Attributes:
        model: the Keras model.
        state: its variables, sorted by what averaging does with them.
        uses_xla: whether the train function is compiled by XLA; None until decided.
        learning_rate: of the last minibatch trained; NaN before the first.
        has_traced: whether the last call of `train` had to trace and compile its function first.
        own_test_step: whether evaluations call the model's own `test_step`.
    """

    def __init__(self, definition: ModelDefinition, *, xla: XlaChoice = "auto") -> None:
        """Build the model and its optimizer's state.

        Raises:
            Whatever a user's layer raises while it is built.
        """
        self.model = definition.build()
        # A network that only predicts need not have been compiled.
        self._optimizers = optimizers_of(self.model)
        self.state = ModelState.of(self.model, training=bool(self._optimizers))
        self.own_test_step = has_own_test_step(self.model)
        self._xla: XlaChoice = xla
        self.uses_xla: bool | None = {"on": True, "off": False}.get(xla)
        self.learning_rate = math.nan
        self._compiled_rate = learning_rate_of(self.model)
        self.has_traced = False
        self._fresh_updater = [
            _compact(np.array(variable.numpy())) for variable in self.state.updater
        ]
        self._train_calls: dict[Any, Callable[..., Any]] = {}
        self._evaluate_calls: dict[Any, Callable[..., Any]] = {}
        self._predict_calls: dict[Any, Callable[..., Any]] = {}
        self._losses_calls: dict[Any, Callable[..., Any]] = {}
        self._subtract_at = SparseSubtraction(self.state.averaged[: self.state.trainable])
        self._update_share: Any = None  # a variable, once updates are to be scaled

    @property
    def train_phase(self) -> PhaseCode:
        """What the last call of `train` was, for a timeline."""
        return PhaseCode.TRACE if self.has_traced else PhaseCode.COMPUTE

    # -- state ------------------------------------------------------------------------------

    def reset_updater(self) -> None:
        """Start the optimizer's moments afresh; its iterations go on."""
        for variable, value in zip(self.state.updater, self._fresh_updater, strict=True):
            variable.assign(np.broadcast_to(value, variable.shape))

    def read(self, vector: NDArray[Any], *, updater: bool, scale: float = 1.0) -> None:
        """Copy the averaged variables (and the updater's), times `scale`, into `vector`."""
        self.state.read(updater=updater, out=vector, scale=scale)

    def write(self, vector: NDArray[Any]) -> None:
        """Set the averaged variables (and the updater's, if `vector` holds them)."""
        self.state.write(vector)

    def subtract(self, vector: NDArray[Any]) -> None:
        """Subtract `vector`, of the trainable variables' length, from them."""
        state = self.state
        subtract_from(state.averaged[: state.trainable], vector)

    def subtract_at(self, indices: NDArray[np.int64], values: NDArray[Any]) -> None:
        """Subtract `values` at places of the trainable variables' flat vector; repeats add up."""
        self._subtract_at(indices, values)

    @property
    def iterations(self) -> int:
        """Minibatches the optimizer has counted; of several, the main one."""
        return self.state.iterations

    @iterations.setter
    def iterations(self, value: int) -> None:
        self.state.set_iterations(value)

    def use_learning_rate(self, rate: float | None, *, afresh: bool = False) -> None:
        """Train with `rate` from now on; None: as before or, `afresh`, with the compiled one."""
        rate = self._compiled_rate if rate is None and afresh else rate
        if rate is not None:
            self.model.optimizer.learning_rate = rate

    def share_updates(self, share: float | None) -> None:
        """From now on each step changes the parameters by `share` of what the optimizer wants.

        None: by all of it, which costs nothing; the default.
        """
        import tensorflow as tf

        if (share is None) != (self._update_share is None):
            self._train_calls.clear()
            first: Any = share
            self._update_share = None if share is None else tf.Variable(first, dtype=tf.float32)
        if share is not None:
            self._update_share.assign(share)

    # -- data -------------------------------------------------------------------------------

    def arrange(
        self, columns: Mapping[str, NDArray[Any]], *, training: bool = False
    ) -> BatchLayout:
        """Decide which column feeds which input and output, and check shapes and labels.

        Args:
            columns: flat names as `DataSet.columns` gives them; arrays with an example axis first.
            training: whether there must be labels if the model has a loss; default False.

        Raises:
            DataError: if a column is missing, left over, or has the wrong shape, or labels do not
                fit the loss.
        """
        return BatchLayout.of(self.model, columns, training=training)

    # -- training ---------------------------------------------------------------------------

    def train(
        self, layout: BatchLayout, columns: Mapping[str, NDArray[Any]]
    ) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Train the minibatches in `columns`, one optimizer step each.

        Args:
            layout: from `arrange`.
            columns: flat name -> (steps, batch, ...) array.

        Returns:
            (steps,) float32 losses before each step, and the compiled metrics since the last
            `reset_metrics`.
        """
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

    def reset_metrics(self) -> None:
        """Start the compiled metrics anew; done at the start of each epoch."""
        self.model.reset_metrics()

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
                predictions = _outputs(model, x, mask, training=True)
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
                rate: Any = tf.reshape(convert(_last_rate(optimizer), tf.float32), [])
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

    def loss(self, layout: BatchLayout, columns: Mapping[str, NDArray[Any]]) -> float:
        """Mean loss (regularisation included) of one batch, in inference mode; metrics count it.

        Args:
            layout: from `arrange`.
            columns: flat name -> (batch, ...) array.

        Returns:
            The loss; NaN when `columns` has no labels, unless the model has a `test_step`.
        """
        call = self._call(self._evaluate_calls, self._compile_evaluate, layout)
        return float(call([columns[name] for name in layout.order]))

    def predict(
        self, layout: BatchLayout, columns: Mapping[str, NDArray[Any]]
    ) -> list[NDArray[Any]]:
        """One (batch, ...) array per output, in inference mode; arguments as for `loss`."""
        call = self._call(self._predict_calls, self._compile_predict, layout)
        return [output.numpy() for output in call([columns[name] for name in layout.order])]

    def losses(
        self, layout: BatchLayout, columns: Mapping[str, NDArray[Any]], *, regularization: bool
    ) -> NDArray[np.float32]:
        """(batch,) the loss that each example has by itself, in inference mode.

        Args:
            layout: from `arrange`.
            columns: flat name -> (batch, ...) array.
            regularization: whether each loss includes the network's regularisation terms.
        """
        key = (layout.open_key, regularization)
        if key not in self._losses_calls:
            self._losses_calls[key] = self._compile_losses(layout, regularization=regularization)
        return self._losses_calls[key]([columns[name] for name in layout.order]).numpy()

    @property
    def averages_loss(self) -> bool:
        """Whether the loss of a batch is a mean over its examples; otherwise it is a sum."""
        flat = getattr(getattr(self.model, "_compile_loss", None), "_flat_losses", None) or ()
        return all(getattr(entry[1], "reduction", None) != "sum" for entry in flat)

    def metric_state(self) -> NDArray[np.float64]:
        """The compiled metrics' accumulators, flat; sums over workers are sums over their data."""
        variables = self.model.metrics_variables
        return np.concatenate(
            [v.numpy().astype(np.float64).ravel() for v in variables] or [np.empty(0)]
        )

    def metric_results(self, state: NDArray[np.float64]) -> dict[str, float]:
        """What the compiled metrics say for (summed) accumulators `state`."""
        start = 0
        for variable in self.model.metrics_variables:
            stop = start + int(np.prod(variable.shape))
            variable.assign(state[start:stop].reshape(variable.shape).astype(str(variable.dtype)))
            start = stop
        results = self.model.get_metrics_result()
        return {name: float(value) for name, value in results.items() if name != "loss"}

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
            return tf.nest.flatten(_outputs(model, x, mask, training=False))

        return tf.function(predict, autograph=False, input_signature=[signature])

    def _compile_evaluate(self, layout: BatchLayout) -> Callable[..., Any]:
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]
        own = _own_step(model, model.test_step, layout)

        def evaluate(arrays: Sequence[Any]) -> Any:
            if self.own_test_step:
                return own(arrays)[0]
            x, y, sample_weight, mask = layout.unpack(arrays)
            if y is None:
                return tf.constant(np.nan, tf.float32)
            predictions = _outputs(model, x, mask, training=False)
            loss = model._compute_loss(
                x=x, y=y, y_pred=predictions, sample_weight=sample_weight, training=False
            )
            if layout.has_metrics:
                model.compute_metrics(x, y, predictions, sample_weight=sample_weight)
            return tf.cast(loss, tf.float32)

        return tf.function(evaluate, autograph=False, input_signature=[signature])

    def _compile_losses(self, layout: BatchLayout, *, regularization: bool) -> Callable[..., Any]:
        import keras
        import tensorflow as tf

        model = self.model
        signature = [tf.TensorSpec([None, *shape], dtype) for dtype, shape in layout.open_specs]

        def losses(arrays: Sequence[Any]) -> Any:
            x, y, sample_weight, mask = layout.unpack(arrays)
            predictions = _outputs(model, x, mask, training=False)
            outputs = tf.nest.flatten(predictions)
            masks = [getattr(output, "_keras_mask", None) for output in outputs]
            given = {
                "y": y,
                "outputs": outputs,
                "masks": {str(i): mask for i, mask in enumerate(masks) if mask is not None},
                "weights": _without_gaps(sample_weight),
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
        self._call(self._evaluate_calls, self._compile_evaluate, layout)
        return tf.function(losses, autograph=False, input_signature=[signature])


def _outputs(model: Any, x: Any, mask: Any, *, training: bool) -> Any:
    """What `model` makes of `x`; `training` goes to a `call` that takes it, as in Keras' steps."""
    keywords: dict[str, Any] = {} if mask is None else {"mask": mask}
    if model._call_has_training_arg:
        keywords["training"] = training
    return model(x, **keywords)


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
        name = "loss" if "loss" in found else next(iter(found))
        loss: Any = found.pop(name)
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


def _last_rate(optimizer: Any) -> Any:
    """The learning rate of the optimizer's last step; NaN if it has none."""
    import keras

    while getattr(optimizer, "inner_optimizer", None) is not None:
        optimizer = optimizer.inner_optimizer
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return rate(keras.ops.maximum(optimizer._iterations - 1, 0))
    return getattr(optimizer, "learning_rate", math.nan)


def _without_gaps(weights: Any) -> Any:
    """Sample weights with ones for the outputs that have none; () where there are none at all."""
    import tensorflow as tf

    if weights is None:
        return ()
    if not isinstance(weights, list):
        return weights
    examples = tf.shape(next(weight for weight in weights if weight is not None))[:1]
    return [tf.ones(examples) if weight is None else weight for weight in weights]


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """One number if all are equal, as an optimizer's fresh state mostly is."""
    first = values.reshape(-1)[:1]
    return first.reshape(()) if first.size and (values == first).all() else values
