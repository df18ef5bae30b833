"""A Keras model's state as flat vectors: what is averaged, what is not."""

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
    """The variables of a compiled, built model, sorted by what averaging does with them.

    Attributes:
        averaged: trainable variables, then the other floating-point state that training changes
            (BatchNormalization statistics), then what the optimizer keeps of weights and gradients
            (moving averages, accumulated gradients). Variables that a layer or LoRA freezes are not
            among them: they stay bit for bit what they were.
        updater: the rest of the optimizer's floating-point state (moments), without its
            learning rate, which every worker computes alike.
        counters: each worker's own state, never averaged: the iterations of the optimizers first,
            the main one's before others', then other integers (seeds of Dropout, counters of
            custom layers), and the loss scale, a power of 2 that is what the worker's own gradients
            can bear.
        fixed: what training does not change: the variables of frozen layers. A worker needs them
            once. What preprocessing layers were adapted to is in the model's definition instead.
        trainable: how many of the averaged variables are trainable; they come first.
        own_updater: whether the moments, too, are each worker's own. They follow the counters.
        clocks: how many of the counters are iterations: one of each optimizer.
        dtype: of the vector: float64 if any variable is, else float32 (half precision is widened).
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
        """Work out once where each variable lies in the vector, and of which type that is."""
        wide = any(str(v.dtype) == "float64" for v in (*self.averaged, *self.updater))
        object.__setattr__(self, "dtype", np.dtype(np.float64 if wide else np.float32))
        object.__setattr__(self, "_spans", tuple(_spans([*self.averaged, *self.updater])))

    @classmethod
    def of(cls, model: Any, *, training: bool = True) -> "ModelState":
        """Sort the variables of `model`, building its optimizer's state if need be.

        Args:
            model: a keras.Model.
            training: whether there must be an optimizer; default True.

        Raises:
            ConfigurationError: if the model has not been built, or for training not compiled.
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
            # Of a layer that is trained: what LoRA froze, which was made to be trained.
            for variable in (layer._trainable_variables if layer.trainable else layer.variables)
            if not (layer.trainable and variable.trainable)
        }
        adapted = {id(variable) for variable in adapted_variables(model)}
        untrained = [v for v in model.non_trainable_variables if id(v) not in adapted]
        others = [v for v in untrained if id(v) not in frozen]
        parts = [part for optimizer in used for part in optimizers(optimizer)]
        # Not `iterations`: with accumulated gradients that is no variable, but computed from it.
        clocks = [each._iterations for each in parts if not hasattr(each, "inner_optimizer")]
        apart = {id(v) for v in clocks}
        apart |= {id(getattr(each, "_learning_rate", None)) for each in parts}
        slots = [v for optimizer in used for v in optimizer.variables if id(v) not in apart]
        lasting = {id(v) for each in parts for v in _lasting(each)}
        scales = {id(getattr(each, "dynamic_scale", None)) for each in parts}
        moments = [v for v in slots if _is_float(v) and id(v) not in lasting | scales]
        return cls(
            averaged=[
                *model.trainable_variables,
                *(v for v in others if _is_float(v)),
                *(v for v in slots if id(v) in lasting),
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
        """Minibatches that the optimizer has counted; of several, the main one."""
        access = variables()
        return int(access.read(access.held(self.counters[0])))

    def set_iterations(self, value: int) -> None:
        """Have the optimizers go on as after `value` minibatches of the main one."""
        before = self.iterations
        for clock in self.counters[: self.clocks]:  # others may step more or less often
            clock.assign(round(int(clock.numpy()) * value / before) if before else value)

    @property
    def averaged_size(self) -> int:
        """Elements of the averaged variables together."""
        return self._spans[len(self.averaged) - 1].stop if self.averaged else 0

    @property
    def trainable_size(self) -> int:
        """Elements of the trainable variables together; the first ones of the vector."""
        return self._spans[self.trainable - 1].stop if self.trainable else 0

    @property
    def updater_size(self) -> int:
        """Elements of the optimizer's floating-point state together."""
        return (self._spans[-1].stop if self._spans else 0) - self.averaged_size

    def read(self, *, updater: bool, out: Vector | None = None, scale: float = 1.0) -> Vector:
        """The averaged variables, then the updater's if asked for, as one flat vector.

        Variable by variable, with bare operations: a compiled concatenation copies twice, and a
        variable's own methods take half as long again.

        Args:
            updater: whether the optimizer's state follows.
            out: where to put it; default a new vector.
            scale: what to multiply it by on the way, which costs no pass of its own; default 1.
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
        """Whether no averaged variable is NaN or infinite; nor any of the updater's, if asked for.

        A GPU looks at its own memory. Otherwise a dot product reads a variable once and allocates
        nothing; where it overflows, each value is looked at.
        """
        spans = self._spans if updater else self._spans[: len(self.averaged)]
        found = variables().are_finite([span.held for span in spans])
        if found is not None:
            return found
        for _, values in _values(spans):
            if values.dtype.char in "fd":  # float32 and float64, which BLAS knows
                with np.errstate(all="ignore"):
                    if np.isfinite(np.dot(values, values)):
                        continue
            if not np.isfinite(values).all():
                return False
        return True

    def trainable_views(self) -> list[Vector]:
        """The trainable variables, flat, in the vector's order; without copying where possible.

        On a CPU they are windows on the variables themselves: let go of them before the next step,
        or the backend copies the variables instead of changing them in place.
        """
        values = _values(self._spans[: self.trainable])
        return [value.astype(self.dtype, copy=False) for _, value in values]

    def trainable_windows(self) -> list[Vector] | None:
        """As `trainable_views`, to be changed in place; None if not all can be changed so.

        A variable cannot if another one, such as its moving average, has its memory for now.
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
        """Set the variables from what `read` returned, or from its beginning.

        Without the updater's part, or with the trainable variables alone, the others stay.
        """
        _assign([span for span in self._spans if span.stop <= vector.size], vector)

    def subtract(self, vector: Vector) -> None:
        """Subtract `vector`, of the trainable variables' length, from them."""
        spans = self._spans[: self.trainable]
        parts = (vector[span.start : span.stop].reshape(span.shape) for span in spans)
        variables().subtract([span.held for span in spans], parts)

    def change(self, excess: Vector, average: Vector) -> None:
        """Apply an average that comes late: trainable variables keep what they learned since.

        Args:
            excess: at least of the trainable variables' length; it is subtracted from them.
            average: what `read` returns, without the updater's part, in the mean of all workers.
                Statistics take its values, because a difference could make a variance negative.
        """
        self.subtract(excess)
        _assign(self._spans[self.trainable : len(self.averaged)], average)

    def own_seeds(self, counters: Sequence[NDArray[Any]], *, worker: int) -> None:
        """Give `worker` seeds of its own, in place: so each draws its own Dropout masks.

        Worker 0 keeps those of training on one machine.

        Args:
            counters: as `read_counters` gives them; `read_extras` begins with them.
            worker: its number.
        """
        for variable, value in zip(self.counters, counters, strict=False):
            if variable.name == "seed_generator_state":  # of shape (2,): seed, draws so far
                value[0] = (int(value[0]) + worker * 0x9E3779B1) % 2**31

    @property
    def own(self) -> Sequence[Any]:
        """Each worker's own state: the counters, and with `own_updater` the moments."""
        return [*self.counters, *self.updater] if self.own_updater else self.counters

    def read_counters(self) -> list[NDArray[Any]]:
        """Copies of each worker's own state, in order; integers as int64.

        Keras' backends differ in the width of integers.
        """
        return [_widened(variable) for variable in self.own]

    def read_extras(self) -> list[NDArray[Any]]:
        """Copies of what is not averaged: each worker's own, then the fixed variables."""
        return [*self.read_counters(), *(np.array(variable.numpy()) for variable in self.fixed)]

    def write_extras(self, values: Sequence[NDArray[Any]]) -> None:
        """Set each worker's own, and the fixed variables if `values` goes on with them."""
        for variable, value in zip((*self.own, *self.fixed), values, strict=False):
            narrow = np.asarray(value).astype(variable.numpy().dtype, copy=False)
            variable.assign(narrow.reshape(variable.shape))


def pack_arrays(arrays: Sequence[NDArray[Any]]) -> bytes:
    """The arrays' bytes, one after another; shapes and dtypes are known to the other side."""
    return b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)


def unpack_arrays(content: bytes, like: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The inverse of `pack_arrays`: writable arrays shaped as those of `like`.

    Raises:
        DataError: if the sizes do not agree.
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


def _lasting(optimizer: Any) -> Iterator[Any]:
    """State of an optimizer that is averaged with the weights, and survives `reset_updater`.

    Moments may be reset, because they fade. Averages of weights would be wrong from then on, and
    gradients be missing from the next update.
    """
    yield from getattr(optimizer, "_model_variables_moving_average", ())
    yield from getattr(optimizer, "_accumulated_gradients", ())
    if type(optimizer).__name__ == "ScheduleFreeAdamW":
        yield from optimizer._momentums  # the weights without averaging, despite the name


def _widened(variable: Any) -> NDArray[Any]:
    value = np.array(variable.numpy())
    return value.astype(np.int64) if value.dtype.kind in "iu" else value


def _is_float(variable: Any) -> bool:
    return "float" in str(variable.dtype)


class _Span(NamedTuple):
    """A variable, and its part of the vector."""

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
    """Each variable's value, flat, as it lies in memory."""
    access = variables()
    joined = access.gathered([span.held for span in spans])
    for span in spans:
        if joined is None:
            yield span, access.read(span.held).reshape(-1)
        else:
            first = spans[0].start
            yield span, joined[span.start - first : span.stop - first]


def _assign(spans: Sequence[_Span], vector: Vector) -> None:
    """Set the variables of `spans` to their parts of `vector`."""
    parts = (vector[span.start : span.stop].reshape(span.shape) for span in spans)
    values = (part.astype(span.dtype, copy=False) for part, span in zip(parts, spans, strict=True))
    variables().assign([span.held for span in spans], values)
