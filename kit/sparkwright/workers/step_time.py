"""Measure the training time of a minibatch on a copy of the network."""

import random
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.data.texts import TEXT
from sparkwright.errors import ConfigurationError
from sparkwright.networks import ModelDefinition
from sparkwright.networks.signature import output_names, signature_of
from sparkwright.options import check_count

from ._batch_layout import BatchLayout
from ._column_checks import is_known_loss, losses_of
from ._replica import make_replica
from ._replica_base import Replica, XlaChoice

# Maximum memory of the minibatches of a call, and the length used for axes of size None.
_MOST_BYTES = 64 << 20
_OPEN_LENGTH = 16
_CALLS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """Measured training time of a minibatch.

    Attributes:
        seconds: time of one minibatch, the median over several calls.
        batch_size: examples per minibatch.
        steps: number of timed minibatches.
        vector_bytes: bytes of the network exchanged by averaging, as float32.
        updater_bytes: bytes of the optimizer's state exchanged by averaging.
        cores: threads per operation in this process; a worker uses one for each of its cores.
        device: "CPU" or "GPU".
    """

    seconds: float
    batch_size: int
    steps: int
    vector_bytes: int
    updater_bytes: int
    cores: int
    device: str

    @property
    def examples_per_s(self) -> float:
        """Examples per second of one worker."""
        return self.batch_size / self.seconds


def measure_step(
    model: Any,
    batch_size: int,
    *,
    budget_s: float = 2.0,
    xla: XlaChoice = "auto",
) -> StepTime:
    """Time one training step of `model` on random data of its input shapes.

    Trains a copy, compiled as on workers. The model, its optimizer and the random states of Python
    and NumPy do not change. Axes of size None get length 16. If Keras has not been imported, its
    import takes about 10 s more.

    Args:
        model: a built and compiled keras.Model.
        batch_size: examples per minibatch.
        budget_s: approximate duration after the first step, which compiles. Default 2. At least
            one more step is timed.
        xla: as in the master. Default "auto".

    Raises:
        ConfigurationError: if the model is not compiled or cannot be serialized, if `batch_size`
            is below 1, or if a custom loss accepts neither class numbers nor labels of the
            output's shape.
    """
    check_count("batch_size", batch_size)
    if getattr(model, "optimizer", None) is None:
        raise ConfigurationError(
            "the model must be compiled. Received: "
            f"{getattr(model, 'name', model)!r}, not compiled. Call `model.compile(…)`."
        )
    with _random_state_restored():
        replica = make_replica(ModelDefinition.of(model), xla=xla)
        return _timed(replica, batch_size, budget_s)


def _timed(replica: Replica, batch_size: int, budget_s: float) -> StepTime:
    layout, one = _first_step(replica, batch_size)
    first_s = _seconds_of(replica, layout, one, 1)
    size_bytes = max(1, sum(array.nbytes for array in one.values()))
    affordable = int(budget_s / _CALLS / max(first_s, 1e-6))
    steps = max(1, min(affordable, _MOST_BYTES // size_bytes))
    times, spent_s = [first_s], first_s
    while len(times) <= _CALLS and spent_s < budget_s:
        took_s = _seconds_of(replica, layout, one, steps)
        times.append(took_s / steps)
        spent_s += took_s
    # Exclude the first step, which includes the full overhead of a call.
    kept = times[1:] or times
    (device, cores), state = replica.device, replica.state
    return StepTime(
        seconds=float(np.median(kept)),
        batch_size=batch_size,
        steps=1 + steps * (len(times) - 1),
        vector_bytes=state.averaged_size * state.dtype.itemsize,
        updater_bytes=state.updater_size * state.dtype.itemsize,
        cores=cores,
        device=device,
    )


def _first_step(replica: Replica, batch_size: int) -> tuple[Any, dict[str, NDArray[Any]]]:
    """Trace, compile and run one step, with labels that the losses accept."""

    def step(*, other_labels: bool) -> tuple[Any, dict[str, NDArray[Any]]]:
        one = _random_batch(replica.model, batch_size, other_labels=other_labels)
        layout = BatchLayout(replica.model, one, training=True)
        _seconds_of(replica, layout, one, 1)
        return layout, one

    try:
        return step(other_labels=False)
    except Exception as error:
        losses = losses_of(replica.model.loss, output_names(replica.model))
        own = [loss for loss in losses if loss is not None and not is_known_loss(loss)]
        if not own:
            raise
        reason = error
    # The label format of a custom loss is unknown; try the other one.
    try:
        return step(other_labels=True)
    except Exception:
        named = ", ".join(repr(_names(loss)[0]) for loss in own)
        raise ConfigurationError(
            "to time a step, custom losses must accept class numbers or labels of the output's "
            f"shape. Received: {named}, which failed with both ({reason}). Time a "
            "copy of the network compiled with a built-in loss of Keras."
        ) from reason


def _seconds_of(
    replica: Replica, layout: Any, one: Mapping[str, NDArray[Any]], steps: int
) -> float:
    columns = {
        name: np.broadcast_to(array, (steps, *array.shape)).copy() for name, array in one.items()
    }
    started_s = time.perf_counter()
    replica.train(layout, columns)
    return time.perf_counter() - started_s


def _random_batch(
    model: Any, batch_size: int, *, other_labels: bool = False
) -> dict[str, NDArray[Any]]:
    """Return a random minibatch that fits the network's inputs and losses: flat name -> column."""
    draw = np.random.default_rng(0)
    found: dict[str, NDArray[Any]] = {}
    signature = signature_of(model)
    for name, (dtype, inside) in signature.inputs.items():
        # In [0, 1), so that index lookups get the first entry.
        values = draw.random((batch_size, *_closed(inside)), np.float32)
        values = values.astype(str) if dtype == "string" else values
        found[f"features/{name}"] = values.astype(_numpy_type(dtype))
    losses = losses_of(getattr(model, "loss", None), list(signature.outputs))
    for (name, (_, inside)), loss in zip(signature.outputs.items(), losses, strict=True):
        shape = (batch_size, *_closed(inside))
        if loss is None:
            continue
        # `other_labels` swaps the label format of custom losses.
        if _is_sparse(loss) != (other_labels and not is_known_loss(loss)):
            found[f"labels/{name}"] = np.zeros(shape[:-1], np.int32)
            continue
        labels = np.zeros(shape, np.float32)
        labels[..., 0] = 1
        found[f"labels/{name}"] = labels
    return found


def _is_sparse(loss: Any) -> bool:
    return any("sparse" in name.lower() for name in _names(loss))


def _names(loss: Any) -> list[str]:
    """Return the function's name, or the names of the class and its base classes."""
    if isinstance(loss, str):
        return [loss]
    inner = getattr(loss, "func", loss)  # of a functools.partial
    if (name := getattr(inner, "__name__", None)) is not None:
        return [str(name)]
    return [kind.__name__ for kind in type(inner).__mro__ if kind is not object]


def _closed(shape: Any) -> tuple[int, ...]:
    return tuple(_OPEN_LENGTH if size is None else int(size) for size in shape)


def _numpy_type(name: str) -> np.dtype[Any]:
    if name == "string":
        return TEXT
    return np.dtype(
        name if name.startswith(("float16", "float64", "int", "uint", "bool")) else "f4"
    )


@contextmanager
def _random_state_restored() -> Generator[None]:
    """Restore the random states of Python and NumPy, from which Keras draws seeds."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
