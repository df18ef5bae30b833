"""A replica on JAX: a compiled step with explicit state."""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks import ModelDefinition

from ._batch_layout import BatchLayout
from ._replica_base import Columns, Replica, last_rate, loss_of
from .metric_values import numbers_of

Values = list[Any]
# For shorter minibatches, a GPU waits for Python to start each one.
_SHORT_S = 0.002
_SCANNED = (32, 4)  # minibatches per compiled loop; the remaining ones are trained one by one


class _TrainCall(NamedTuple):
    """Compiled functions, and the variables that hold their state."""

    variables: list[Any]  # trainable ones, then the optimizer's, then all others
    # (state, minibatch, share) -> (state, loss, readings: metrics and learning rate); donates
    # the given state.
    step: Callable[..., Any]
    # (state, minibatches, share) -> (state, losses, readings); donates it, too.
    scan: Callable[..., Any]


class JaxReplica(Replica):
    """A replica that calls a compiled step per minibatch, or per several short ones on a GPU."""

    # JAX compiles a function for each shape, so a shorter last minibatch once. On CPUs, XLA runs
    # convolutions in a compiled loop more than ten times slower.

    def __init__(self, definition: ModelDefinition) -> None:
        import jax  # pyright: ignore[reportMissingImports]

        super().__init__(definition)
        self._jax: Any = jax
        self.uses_xla = True
        self._share: float | None = None
        self._calls: dict[Any, Any] = {}
        self._shapes: set[Any] = set()  # shapes with compiled functions
        self._step_s: float | None = None  # of an already compiled minibatch
        self._last_steps = 0  # in the last call of `train`

    @property
    def device(self) -> tuple[Literal["CPU", "GPU"], int]:
        threads = int(os.environ.get("NPROC", 0)) or os.cpu_count() or 1
        return ("GPU" if self._jax.default_backend() == "gpu" else "CPU"), threads

    def share_updates(self, share: float | None) -> None:
        self._share = share

    # -- training ---------------------------------------------------------------------------

    def train(
        self, layout: BatchLayout, columns: Columns
    ) -> tuple[NDArray[np.float32], dict[str, float]]:
        arrays = [columns[name] for name in layout.order]
        if layout.key not in self._calls:
            self._calls[layout.key] = self._compile_train(layout, [array[0] for array in arrays])
        call: _TrainCall = self._calls[layout.key]
        state, losses, readings = _values(call.variables), list[Any](), None
        self.has_traced = False
        began_s = time.monotonic()
        for start, count in self._pieces(len(arrays[0])):
            shape = (layout.key, arrays[0].shape[1], self._share is None, count)
            self.has_traced |= shape not in self._shapes
            self._shapes.add(shape)
            if count == 1:
                train, part = call.step, [array[start] for array in arrays]
            else:
                train, part = call.scan, [array[start : start + count] for array in arrays]
            state, loss, readings = train(state, part, self._share)
            losses.append(loss)
        found, (metrics, rate) = self._jax.device_get((losses, readings))
        if self._step_s is None and not self.has_traced:
            self._step_s = (time.monotonic() - began_s) / len(arrays[0])
        _assign(call.variables, state)
        self.learning_rate = float(rate)
        flat = np.concatenate([np.ravel(each) for each in found]).astype(np.float32, copy=False)
        return flat, {name: float(value) for name, value in numbers_of(metrics)}

    def _pieces(self, steps: int) -> Iterator[tuple[int, int]]:
        """Yield the first minibatch of each compiled call, and its number of minibatches."""
        counts = [1]
        if self.device[0] == "GPU" and (self._step_s or math.inf) < _SHORT_S:
            # Rounds of constant length need one call each.
            usual = {steps} if steps == self._last_steps and steps < max(_SCANNED) else set[int]()
            counts = sorted({*_SCANNED, *usual, 1}, reverse=True)
        self._last_steps = steps
        start = 0
        while start < steps:
            count = next(n for n in counts if n <= steps - start)
            yield start, count
            start += count

    def _compile_train(self, layout: BatchLayout, arrays: Values) -> _TrainCall:
        import keras

        self._build_compiled(layout, arrays)
        model, optimizer, others = self.model, self._optimizers[0], self._others()
        trainable: list[Any] = list(model.trainable_variables)
        variables = [*trainable, *optimizer.variables, *others]
        first, last = len(trainable), len(variables) - len(others)

        def forward(values: Values, rest: Values, minibatch: Values) -> Any:
            state = zip(variables, [*values, *rest], strict=True)
            with keras.StatelessScope(state, collect_losses=True) as scope:
                loss = loss_of(model, layout, minibatch, training=True)
                scaled = optimizer.scale_loss(loss)
            after = [scope.get_current_value(variable) for variable in others]
            return scaled, (after, keras.ops.cast(loss, "float32"))

        def change(state: Values, minibatch: Values, share: Any) -> Any:
            before, updater = state[:first], state[first:last]
            with_gradients = self._jax.value_and_grad(forward, has_aux=True)
            (_, (rest, loss)), gradients = with_gradients(before, state[first:], minibatch)
            after, updater = optimizer.stateless_apply(updater, gradients, before)
            if share is not None:
                pairs = zip(before, after, strict=True)
                after = [old + share.astype(old.dtype) * (new - old) for old, new in pairs]
            return [*after, *updater, *rest], loss

        def readings(state: Values) -> Any:
            with keras.StatelessScope(zip(variables, state, strict=True)):
                found = model.get_metrics_result() if layout.has_metrics else {}
                metrics = {name: value for name, value in found.items() if name != "loss"}
                return metrics, keras.ops.cast(last_rate(optimizer), "float32")

        def step(state: Values, minibatch: Values, share: Any) -> Any:
            state, loss = change(state, minibatch, share)
            return state, loss, readings(state)

        def scan(state: Values, minibatches: Values, share: Any) -> Any:
            def body(state: Values, minibatch: Values) -> Any:
                after, loss = change(state, minibatch, share)
                # `scan` requires constant dtypes; results may have JAX' "weak" types.
                return [new.astype(old.dtype) for new, old in zip(after, state, strict=True)], loss

            state, losses = self._jax.lax.scan(body, state, minibatches)
            return state, losses, readings(state)

        compiled = [self._jax.jit(function, donate_argnums=0) for function in (step, scan)]
        return _TrainCall(variables, *compiled)

    def _others(self) -> list[Any]:
        """Return the unique variables that are neither trainable nor the optimizer's."""
        found = (*self.model.non_trainable_variables, *self.model.metrics_variables)
        return [*{id(variable): variable for variable in found}.values()]

    def _build_compiled(self, layout: BatchLayout, arrays: Values) -> None:
        """Create the variables of the compiled loss and metrics, as tracing must not create any."""
        x, y, sample_weight, _ = layout.unpack(arrays)
        if y is not None:
            self.model._symbolic_build(data_batch=(x, y, sample_weight))

    # -- evaluation -------------------------------------------------------------------------

    def _infer(
        self, name: str, function: Callable[[Values], Any], layout: BatchLayout, columns: Columns
    ) -> Any:
        import keras

        arrays = [columns[name] for name in layout.order]
        trainable = list(self.model.trainable_variables)
        key = (name, layout.open_key)
        if key not in self._calls:
            if name != "predict":
                self._build_compiled(layout, arrays)
            others = self._others()

            def infer(values: Values, rest: Values, minibatch: Values) -> Any:
                state = zip([*trainable, *others], [*values, *rest], strict=True)
                with keras.StatelessScope(state, collect_losses=True) as scope:
                    found = function(minibatch)
                return [scope.get_current_value(variable) for variable in others], found

            self._calls[key] = self._jax.jit(infer, donate_argnums=1), others
        call, others = self._calls[key]
        rest, found = call(_values(trainable), _values(others), arrays)
        _assign(others, rest)
        return self._jax.device_get(found)

    def _over(self, function: Callable[[Any], Any], given: Any) -> Any:
        return self._jax.vmap(function)(given)


def _values(variables: Sequence[Any]) -> Values:
    """Return the variables' arrays without aliases: JAX cannot donate a buffer twice."""
    values = [variable.value for variable in variables]
    if len({id(value) for value in values}) == len(values):
        return values
    return [value.copy() for value in values]


def _assign(variables: Sequence[Any], values: Values) -> None:
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
