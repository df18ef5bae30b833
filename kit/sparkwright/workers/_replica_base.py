"""Base class of a worker's replica of the network, for all of Keras' backends."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks import ModelDefinition, ModelState
from sparkwright.networks.steps import learning_rate_of, optimizers_of
from sparkwright.timeline import PhaseCode

from ._batch_layout import BatchLayout
from .metric_values import numbers_of
from .shard import Shard

_LEAST_BATCH = 64  # of validation

XlaChoice = Literal["auto", "on", "off", "measure"]
Columns = Mapping[str, NDArray[Any]]
Arrays = Sequence[Any]


class Replica(ABC):
    """A built and compiled model that trains several minibatches per call."""

    def __init__(self, definition: ModelDefinition) -> None:
        """Build the model and its optimizer's state."""
        self.model = definition.build()
        # A network used only for prediction may not be compiled.
        self._optimizers = optimizers_of(self.model)
        # The variables, grouped by how averaging treats them.
        self.state = ModelState.of(self.model, training=bool(self._optimizers))
        self.own_test_step = False  # whether evaluations call the model's custom `test_step`
        self.uses_xla: bool | None = None  # for the train function; None until decided
        self.learning_rate = math.nan  # of the last minibatch trained; NaN before the first
        self._compiled_rate = learning_rate_of(self.model)
        self.has_traced = False  # whether the last call of `train` traced and compiled its function
        self._inner: dict[str, Any] = {}  # models that output other tensors of the model
        self._fresh_updater = [
            _compact(np.array(variable.numpy())) for variable in self.state.updater
        ]

    @property
    def train_phase(self) -> PhaseCode:
        """The phase of the last call of `train` in the timeline."""
        return PhaseCode.TRACE if self.has_traced else PhaseCode.COMPUTE

    @property
    @abstractmethod
    def device(self) -> tuple[Literal["CPU", "GPU"], int]:
        """Kind of device, and the number of threads of one operation on the CPU."""

    # -- state ------------------------------------------------------------------------------

    def reset_updater(self) -> None:
        """Reset the optimizer's moments to their initial values, but not its iterations."""
        for variable, value in zip(self.state.updater, self._fresh_updater, strict=True):
            variable.assign(np.broadcast_to(value, variable.shape))

    def keep_own_updater(self, own: bool) -> None:
        """Set whether the optimizer's moments are this worker's own state."""
        if self.state.own_updater != own:
            self.state = replace(self.state, own_updater=own)

    def use_learning_rate(self, rate: float | None, *, afresh: bool = False) -> None:
        """Set the learning rate; None: keep it, or restore the compiled rate if `afresh` is set."""
        rate = self._compiled_rate if rate is None and afresh else rate
        if rate is not None:
            self.model.optimizer.learning_rate = rate

    @abstractmethod
    def share_updates(self, share: float | None) -> None:
        """Scale the optimizer's updates of the parameters by `share` from now on.

        None, the default, means no scaling and no cost.
        """

    # -- training ---------------------------------------------------------------------------

    @abstractmethod
    def train(
        self, layout: BatchLayout, columns: Columns
    ) -> tuple[NDArray[np.float32], dict[str, float]]:
        """Train (steps, batch, ...) columns; return losses before each step and current metrics."""

    # -- evaluation -------------------------------------------------------------------------

    def loss(self, layout: BatchLayout, columns: Columns) -> tuple[float, float]:
        """A batch's mean loss in inference mode, NaN without labels; of how many labels it is."""
        if not any(name.startswith("labels/") for name in layout.order):
            return math.nan, float(len(columns[layout.order[0]]))
        compute = partial(_counted_loss, self.model, layout)
        loss, counted = self._infer("loss", compute, layout, columns)
        return float(loss), float(counted)

    def predict(self, layout: BatchLayout, columns: Columns) -> list[NDArray[Any]]:
        """Return a (batch, ...) array per output, in inference mode; arguments as for `loss`."""
        from keras import tree

        def predict(arrays: Arrays) -> list[Any]:
            x, _, _, mask = layout.unpack(arrays)
            return tree.flatten(outputs_of(self.model, x, mask, training=False))

        return self._infer("predict", predict, layout, columns)

    def outputs(
        self, layout: BatchLayout, columns: Columns, tensors: Mapping[str, Any]
    ) -> list[NDArray[Any]]:
        """Like `predict`, for named symbolic tensors of the model instead of its outputs."""
        import keras

        name = f"outputs {[*tensors]}"
        if name not in self._inner:
            self._inner[name] = keras.Model(self.model.inputs, [*tensors.values()], name="inner")

        def compute(arrays: Arrays) -> list[Any]:
            x, _, _, mask = layout.unpack(arrays)
            return keras.tree.flatten(outputs_of(self._inner[name], x, mask, training=False))

        return self._infer(name, compute, layout, columns)

    def losses(
        self, layout: BatchLayout, columns: Columns, *, regularization: bool
    ) -> NDArray[np.float32]:
        """Return the (batch,) losses of the individual examples, in inference mode."""
        compute = partial(
            example_losses, self.model, layout, over=self._over, regularization=regularization
        )
        return self._infer(f"losses {regularization}", compute, layout, columns)

    @abstractmethod
    def _infer(
        self, name: str, function: Callable[[Arrays], Any], layout: BatchLayout, columns: Columns
    ) -> Any:
        """Return `function` of the columns as NumPy arrays; cache it compiled by `name`."""

    @abstractmethod
    def _over(self, function: Callable[[Any], Any], given: Any) -> Any:
        """Return (batch,) float32 results of `function` for each example of a tree of arrays."""

    @property
    def averages_loss(self) -> bool:
        """Return whether the loss of a batch is a mean over its examples, not a sum."""
        flat = getattr(getattr(self.model, "_compile_loss", None), "_flat_losses", None) or ()
        return all(getattr(entry[1], "reduction", None) != "sum" for entry in flat)

    def metric_state(self) -> NDArray[np.float64]:
        """Return the compiled metrics' accumulators as a vector; workers' vectors can be summed."""
        variables = self.model.metrics_variables
        return np.concatenate(
            [v.numpy().astype(np.float64).ravel() for v in variables] or [np.empty(0)]
        )

    def validation_sums(
        self,
        shard: Shard,
        layout: BatchLayout | None,
        *,
        batch_size: int,
        next_batch: Callable[[], None] = lambda: None,
    ) -> NDArray[np.float64]:
        """Return the sum of the losses of labels, their number, and the metrics' accumulators."""
        self.model.reset_metrics()
        loss_sum, labels, size = 0.0, 0.0, max(batch_size, _LEAST_BATCH)
        for start in range(0, shard.rows, size):
            next_batch()
            block = {name: array[start : start + size] for name, array in shard.columns.items()}
            assert layout is not None
            loss, counted = self.loss(layout, block)
            loss_sum, labels = loss_sum + loss * counted, labels + counted
        return np.concatenate([[loss_sum, labels], self.metric_state()])

    def metric_results(self, state: NDArray[np.float64]) -> dict[str, float]:
        """Return the values of the compiled metrics for (summed) accumulators `state`."""
        start = 0
        for variable in self.model.metrics_variables:
            stop = start + int(np.prod(variable.shape))
            variable.assign(state[start:stop].reshape(variable.shape).astype(str(variable.dtype)))
            start = stop
        results = self.model.get_metrics_result()
        return {name: float(value) for name, value in numbers_of(results) if name != "loss"}


def outputs_of(model: Any, x: Any, mask: Any, *, training: bool) -> Any:
    """Return the model's outputs for `x`; pass `training` only if its `call` accepts it."""
    keywords: dict[str, Any] = {} if mask is None else {"mask": mask}
    if model._call_has_training_arg:
        keywords["training"] = training
    return model(x, **keywords)


def loss_of(model: Any, layout: BatchLayout, arrays: Arrays, *, training: bool) -> Any:
    """Return the loss of a minibatch with labels, and update the compiled metrics."""
    return _loss_and_outputs(model, layout, arrays, training=training)[0]


def _counted_loss(model: Any, layout: BatchLayout, arrays: Arrays) -> tuple[Any, Any]:
    """Return the loss in inference mode, and the number of labels that it is the mean of."""
    loss, outputs = _loss_and_outputs(model, layout, arrays, training=False)
    return loss, layout.counted(outputs)


def _loss_and_outputs(
    model: Any, layout: BatchLayout, arrays: Arrays, *, training: bool
) -> tuple[Any, Any]:
    x, y, sample_weight, mask = layout.unpack(arrays)
    predictions = outputs_of(model, x, mask, training=training)
    layout.mask_outputs(predictions, arrays)
    loss = model._compute_loss(
        x=x, y=y, y_pred=predictions, sample_weight=sample_weight, training=training
    )
    if layout.has_metrics:
        model.compute_metrics(x, y, predictions, sample_weight=sample_weight)
    return loss, predictions


def example_losses(
    model: Any,
    layout: BatchLayout,
    arrays: Arrays,
    *,
    over: Callable[[Callable[[Any], Any], Any], Any],
    regularization: bool,
) -> Any:
    """Return (batch,) losses, see `Replica.losses`; `over` maps a function over a tree."""
    from keras import ops, tree
    from keras.src.backend import get_keras_mask, set_keras_mask

    cast: Any = ops.cast
    x, y, sample_weight, mask = layout.unpack(arrays)
    predictions = outputs_of(model, x, mask, training=False)
    layout.mask_outputs(predictions, arrays)
    outputs = tree.flatten(predictions)
    masks = {str(i): get_keras_mask(output) for i, output in enumerate(outputs)}
    given = {
        "y": y,
        "outputs": outputs,
        "masks": {i: mask for i, mask in masks.items() if mask is not None},
        "weights": _without_gaps(sample_weight),
    }

    # One example at a time, because losses reduce over examples in different ways.
    def of_one(one: Any) -> Any:
        one = tree.map_structure(lambda part: part[None], one)
        for i, its_mask in one["masks"].items():
            set_keras_mask(one["outputs"][int(i)], its_mask)
        structured = tree.pack_sequence_as(predictions, one["outputs"])
        weights = None if sample_weight is None else one["weights"]
        return cast(model._compile_loss(one["y"], structured, weights), "float32")

    found = over(of_one, given)
    terms: list[Any] = [ops.sum(term) for term in model.losses] if regularization else []
    return found + sum(cast(term, "float32") for term in terms)


def last_rate(optimizer: Any) -> Any:
    """Return the learning rate of the optimizer's last step; NaN if it has none."""
    import keras

    while getattr(optimizer, "inner_optimizer", None) is not None:
        optimizer = optimizer.inner_optimizer
    rate = getattr(optimizer, "_learning_rate", None)
    if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return rate(keras.ops.maximum(optimizer._iterations - 1, 0))
    return getattr(optimizer, "learning_rate", math.nan)


def _without_gaps(weights: Any) -> Any:
    """Return sample weights, with ones for outputs without weights; () if no output has any."""
    from keras import ops

    if weights is None:
        return ()
    if not isinstance(weights, list):
        return weights
    shape: Any = ops.shape(next(weight for weight in weights if weight is not None))
    examples = shape[:1]
    return [ops.ones(examples) if weight is None else weight for weight in weights]


def _compact(values: NDArray[Any]) -> NDArray[Any]:
    """Return one number if all are equal, as in most initial optimizer states."""
    first = values.reshape(-1)[:1]
    return first.reshape(()) if first.size and (values == first).all() else values
