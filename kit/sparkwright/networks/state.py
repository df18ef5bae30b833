"""A Keras model's state as flat vectors, split into averaged, local and fixed variables."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, DataError

from .adapted import adapted_variables
from .backend import variables
from .steps import optimizers, optimizers_of

Vector = NDArray[np.floating[Any]]


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelState:
    """The variables of a compiled, built model, grouped by how averaging treats them.

    Attributes:
        averaged: trainable variables, then other floating-point state that training changes
            (BatchNormalization statistics), then the optimizer's moving averages of weights and
            accumulated gradients. Frozen variables are excluded, so they stay bit-identical.
        updater: the rest of the optimizer's floating-point state (moments), without the learning
            rate, which is equal on all workers.
        counters: local state of a worker, never averaged: the optimizers' iterations (main
            optimizer first), then other integers (Dropout seeds, counters of custom layers) and
            the loss scale, a power of 2 that depends on the worker's gradients.
        fixed: variables of frozen layers, sent to a worker once. The adapted state of
            preprocessing layers is part of the model's definition instead.
        trainable: number of trainable variables, which come first in `averaged`.
        own_updater: whether the moments are local as well. They then follow the counters.
        clocks: number of counters that are iterations, one for each optimizer.
        dtype: dtype of the vector: float64 if any variable has it, else float32.
    """

    averaged: Sequence[Any]
    updater: Sequence[Any]
    counters: Sequence[Any]
    fixed: Sequence[Any]
    trainable: int
    clocks: int
    own_updater: bool = False
    dtype: np.dtype[Any] = field(init=False)
    _spans: tuple["_Span", ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        wide = any(str(v.dtype) == "float64" for v in (*self.averaged, *self.updater))
        object.__setattr__(self, "dtype", np.dtype(np.float64 if wide else np.float32))
        object.__setattr__(self, "_spans", tuple(_spans([*self.averaged, *self.updater])))

    @classmethod
    def of(cls, model: Any, *, training: bool = True) -> "ModelState":
        """Group the variables of `model`; build the optimizer's variables if necessary.

        Args:
            model: a keras.Model.
            training: whether an optimizer is required; default True.

        Raises:
            ConfigurationError: if the model is not built, or not compiled and `training` is True.
        """
        if not model.built:
            raise ConfigurationError(
                "the model must be built, so that its shapes are known. Received: "
                f"{model.name!r}, not built. Start it with `keras.Input(shape=…)`, or call a "
                "subclassed model on data once."
            )
        used = optimizers_of(model)
        if not used and training:
            raise ConfigurationError(
                "the model must be compiled with an optimizer and a loss before training. "
                f"Received: {model.name!r}, not compiled. Call `model.compile(…)`; a `train_step` "
                "must apply optimizers that are attributes of the model."
            )
        if len(used) == 1 and not used[0].built:
            used[0].build(model.trainable_variables)
        frozen = {
            id(variable)
            for layer in model._flatten_layers()
            # In a trainable layer, LoRA freezes variables that were created as trainable.
            for variable in (layer._trainable_variables if layer.trainable else layer.variables)
            if not (layer.trainable and variable.trainable)
        }
        adapted = {id(variable) for variable in adapted_variables(model)}
        untrained = [v for v in model.non_trainable_variables if id(v) not in adapted]
        others = [v for v in untrained if id(v) not in frozen]
        parts = [part for optimizer in used for part in optimizers(optimizer)]
        # Not `iterations`: with gradient accumulation, it is computed from this variable.
        clocks = [each._iterations for each in parts if not hasattr(each, "inner_optimizer")]
        apart = {id(v) for v in clocks}
        apart |= {id(getattr(each, "_learning_rate", None)) for each in parts}
        slots = [v for optimizer in used for v in optimizer.variables if id(v) not in apart]
        averaged_slots = {id(v) for each in parts for v in _averaged_slots(each)}
        scales = {id(getattr(each, "dynamic_scale", None)) for each in parts}
        moments = [v for v in slots if _is_float(v) and id(v) not in averaged_slots | scales]
        return cls(
            averaged=[
                *model.trainable_variables,
                *(v for v in others if _is_float(v)),
                *(v for v in slots if id(v) in averaged_slots),
            ],
            updater=moments,
            counters=[
                *clocks,
                *(v for v in slots if not _is_float(v) or id(v) in scales),
                *(v for v in others if not _is_float(v)),
            ],
            fixed=[v for v in untrained if id(v) in frozen],
            trainable=len(model.trainable_variables),
            clocks=len(clocks),
        )

    @property
    def iterations(self) -> int:
        """Number of minibatches counted by the main optimizer."""
        access = variables()
        return int(access.read(access.held(self.counters[0])))

    def set_iterations(self, value: int) -> None:
        """Set the main optimizer's iterations to `value`, and scale those of the others."""
        before = self.iterations
        for clock in self.counters[: self.clocks]:  # optimizers may step at different rates
            clock.assign(round(int(clock.numpy()) * value / before) if before else value)

    @property
    def averaged_size(self) -> int:
        """Number of elements of the averaged variables."""
        return self._spans[len(self.averaged) - 1].stop if self.averaged else 0

    @property
    def trainable_size(self) -> int:
        """Number of elements of the trainable variables, which come first in the vector."""
        return self._spans[self.trainable - 1].stop if self.trainable else 0

    @property
    def updater_size(self) -> int:
        """Number of elements of the optimizer's floating-point state."""
        return (self._spans[-1].stop if self._spans else 0) - self.averaged_size

    def read(self, *, updater: bool, out: Vector | None = None, scale: float = 1.0) -> Vector:
        """Return the averaged variables, optionally with the optimizer's state, as a flat vector.

        Variables are copied one by one with raw operations: a compiled concatenation copies twice,
        and a variable's own methods take 1.5 times as long.

        Args:
            updater: whether to append the optimizer's state.
            out: output vector; default None: a new one.
            scale: factor applied while copying; default 1.
        """
        spans = self._spans if updater else self._spans[: len(self.averaged)]
        if out is None:
            out = np.empty(spans[-1].stop if spans else 0, self.dtype)
        for span, source in _values(spans):
            target = out[span.start : span.stop]
            if scale != 1.0 and source.dtype == target.dtype:
                np.multiply(source, scale, out=target)
                continue
            np.copyto(target, source, "same_kind")
            if scale != 1.0:
                np.multiply(target, scale, out=target)
        return out

    def is_finite(self, *, updater: bool) -> bool:
        """Whether all averaged variables, and with `updater` the optimizer's state, are finite.

        A GPU checks its own memory. On a CPU a dot product reads each variable once without
        allocating; only if it is not finite, the values are checked one by one.
        """
        spans = self._spans if updater else self._spans[: len(self.averaged)]
        found = variables().are_finite([span.held for span in spans])
        if found is not None:
            return found
        for _, values in _values(spans):
            if values.dtype.char in "fd":  # float32 and float64, supported by BLAS
                with np.errstate(all="ignore"):
                    if np.isfinite(np.dot(values, values)):
                        continue
            if not np.isfinite(values).all():
                return False
        return True

    def trainable_views(self) -> list[Vector]:
        """The trainable variables as flat arrays, in the vector's order, copied only if necessary.

        On a CPU they are views of the variables' memory. Release them before the next step, or the
        backend copies the variables instead of updating them in place.
        """
        values = _values(self._spans[: self.trainable])
        return [value.astype(self.dtype, copy=False) for _, value in values]

    def trainable_windows(self) -> list[Vector] | None:
        """Writable views of the trainable variables; None if any variable has none.

        A variable has none while it shares memory with another one, such as its moving average.
        """
        access = variables()
        windows = [access.window(span.held) for span in self._spans[: self.trainable]]
        found = [each for each in windows if each is not None and each.dtype.char in "fd"]
        others = [access.held(variable) for variable in self.fixed]
        others += [span.held for span in self._spans[self.trainable :]]
        if len(found) < len(windows):
            return None
        places = [each.ctypes.data for each in (*found, *map(access.read, others))]
        return found if len(set(places)) == len(places) else None

    def write(self, vector: Vector) -> None:
        """Assign a vector returned by `read`, or its beginning, to the variables.

        Variables beyond the end of the vector keep their values.
        """
        _assign([span for span in self._spans if span.stop <= vector.size], vector)

    def subtract(self, vector: Vector) -> None:
        """Subtract `vector`, of length `trainable_size`, from the trainable variables."""
        spans = self._spans[: self.trainable]
        parts = (vector[span.start : span.stop].reshape(span.shape) for span in spans)
        variables().subtract([span.held for span in spans], parts)

    def change(self, excess: Vector, average: Vector) -> None:
        """Apply a late average; trainable variables keep the updates made since it was started.

        Args:
            excess: at least `trainable_size` elements, subtracted from the trainable variables.
            average: mean over all workers of `read(updater=False)`. Statistics are set to its
                values, because a difference could make a variance negative.
        """
        self.subtract(excess)
        _assign(self._spans[self.trainable : len(self.averaged)], average)

    def own_seeds(self, counters: Sequence[NDArray[Any]], *, worker: int) -> None:
        """Change the seeds in `counters` in place, so that workers draw different Dropout masks.

        Worker 0 keeps the seeds of training on one machine.

        Args:
            counters: arrays returned by `read_counters` or `read_extras`.
            worker: index of the worker.
        """
        for variable, value in zip(self.counters, counters, strict=False):
            if variable.name == "seed_generator_state":  # of shape (2,): seed, draws so far
                value[0] = (int(value[0]) + worker * 0x9E3779B1) % 2**31

    @property
    def own(self) -> Sequence[Any]:
        """Local state of a worker: the counters, and with `own_updater` the moments."""
        return [*self.counters, *self.updater] if self.own_updater else self.counters

    def read_counters(self) -> list[NDArray[Any]]:
        """Copies of the local state, in order; integers as int64, because backends differ."""
        return [_widened(variable) for variable in self.own]

    def read_extras(self) -> list[NDArray[Any]]:
        """Copies of the state that is not averaged: local state, then fixed variables."""
        return [*self.read_counters(), *(np.array(variable.numpy()) for variable in self.fixed)]

    def write_extras(self, values: Sequence[NDArray[Any]]) -> None:
        """Set the local state, and the fixed variables if `values` contains them."""
        for variable, value in zip((*self.own, *self.fixed), values, strict=False):
            narrow = np.asarray(value).astype(variable.numpy().dtype, copy=False)
            variable.assign(narrow.reshape(variable.shape))


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> bytes:
    """Concatenate the arrays' bytes, without shapes and dtypes."""
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def unpack_arrays(content: bytes, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The inverse of `pack_arrays`: writable arrays with the shapes and dtypes of `like`.

    Raises:
        DataError: if `content` has another size.
    """
    ends = [0, *accumulate(array.nbytes for array in like)]
    if len(content) != ends[-1]:
        raise DataError(
            f"the network's integer and frozen state has {ends[-1]} bytes here. "
            f"Received: {len(content)} bytes. Give custom layers a complete `get_config`."
        )
    return [
        np.frombuffer(content[start:stop], array.dtype).reshape(array.shape).copy()
        for array, (start, stop) in zip(like, pairwise(ends), strict=True)
    ]


def _averaged_slots(optimizer: Any) -> Iterator[Any]:
    """Yield optimizer state that is averaged with the weights and kept by `reset_updater`."""
    # Moments may be reset, because they decay. Resetting moving averages of weights or
    # accumulated gradients would lose updates.
    yield from getattr(optimizer, "_model_variables_moving_average", ())
    yield from getattr(optimizer, "_accumulated_gradients", ())
    if type(optimizer).__name__ == "ScheduleFreeAdamW":
        yield from optimizer._momentums  # despite the name, the weights before averaging


def _widened(variable: Any) -> NDArray[Any]:
    value = np.array(variable.numpy())
    return value.astype(np.int64) if value.dtype.kind in "iu" else value


def _is_float(variable: Any) -> bool:
    return "float" in str(variable.dtype)


class _Span(NamedTuple):
    """A variable and its range in the vector."""

    held: Any  # see `networks.backend.Variables`
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    stop: int


def _spans(of: Sequence[Any]) -> Iterator[_Span]:
    access, start = variables(), 0
    for variable in of:
        held, shape = access.held(variable), tuple(variable.shape)
        stop = start + int(np.prod(shape))
        yield _Span(held, access.dtype(held), shape, start, stop)
        start = stop


def _values(spans: Sequence[_Span]) -> Iterator[tuple[_Span, Vector]]:
    """Yield each span with its variable's flat value."""
    access = variables()
    joined = access.concatenated([span.held for span in spans])
    for span in spans:
        if joined is None:
            yield span, access.read(span.held).reshape(-1)
        else:
            first = spans[0].start
            yield span, joined[span.start - first : span.stop - first]


def _assign(spans: Sequence[_Span], vector: Vector) -> None:
    """Assign the ranges of `vector` to the variables of `spans`."""
    parts = (vector[span.start : span.stop].reshape(span.shape) for span in spans)
    values = (part.astype(span.dtype, copy=False) for part, span in zip(parts, spans, strict=True))
    variables().assign([span.held for span in spans], values)
