"""How long one minibatch takes, found out by training a copy of the network for a moment."""

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

from ._batch_layout import BatchLayout, is_known_loss, losses_of
from ._replica_base import Replica, XlaChoice
from ._replicas import make_replica

# What the minibatches of a call may take of memory, and the length of axes that are left open.
_MOST_BYTES = 64 << 20
_OPEN_LENGTH = 16
_CALLS = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class StepTime:
    """How long one minibatch takes to train.

    Attributes:
        seconds: of one minibatch, the median of some calls.
        batch_size: examples of a minibatch.
        steps: minibatches that were timed.
        vector_bytes: what averaging would exchange of the network, as float32.
        updater_bytes: likewise of its optimizer's state.
        cores: threads that one operation may use here; a worker uses as many as it has cores.
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
        """Examples that one worker trains in a second."""
        return self.batch_size / self.seconds


def measure_step(
    model: Any,
    batch_size: int,
    *,
    budget_s: float = 2.0,
    xla: XlaChoice = "auto",
) -> StepTime:
    """Time one training step of `model`, on random data of its input shapes.

    A copy is trained, compiled as workers compile it; the model, its optimizer and the random
    numbers of Python and NumPy stay as they are. Axes of any length get 16 steps. Keras must
    be imported already, or its start (about 10 s) comes on top.

    Args:
        model: a built and compiled keras.Model.
        batch_size: examples of a minibatch.
        budget_s: about how long to time, after the first step, which compiles; default 2. One
            more step is timed in any case.
        xla: as the master's; default "auto".

    Raises:
        ConfigurationError: if the model is not compiled, cannot be described, or `batch_size` is
            below 1; if a loss of the user's own takes neither class numbers nor labels as long as
            the output.
    """
    check_count("batch_size", batch_size)
    if getattr(model, "optimizer", None) is None:
        raise ConfigurationError(
            "only a compiled model has a training step. Received: "
            f"{getattr(model, 'name', model)!r}, not compiled. Call `model.compile(…)`."
        )
    with _random_numbers_kept():
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
    # The first one was a call of its own, with all that a call costs.
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
    """Trace, compile and do one step, with labels that the losses take."""

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
    # What labels a loss of the user's own takes could only be guessed.
    try:
        return step(other_labels=True)
    except Exception:
        named = ", ".join(repr(_names(loss)[0]) for loss in own)
        raise ConfigurationError(
            "a step can be timed only with labels that the losses take: class numbers, or labels "
            f"of the output's shape. Received: {named}, which failed with both ({reason}). Time a "
            "copy of the network that is compiled with a loss of Keras."
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
    """One minibatch that fits the network's inputs and losses, by flat column name.

    Features lie from 0 up to 1: whatever looks them up as indices finds the first entry. Labels
    say the first class. `other_labels` gives losses that Keras does not have class numbers instead
    of labels of the output's shape, or the other way round.
    """
    draw = np.random.default_rng(0)
    found: dict[str, NDArray[Any]] = {}
    signature = signature_of(model)
    for name, (dtype, inside) in signature.inputs.items():
        values = draw.random((batch_size, *_closed(inside)), np.float32)
        values = values.astype(str) if dtype == "string" else values
        found[f"features/{name}"] = values.astype(_numpy_type(dtype))
    losses = losses_of(getattr(model, "loss", None), list(signature.outputs))
    for (name, (_, inside)), loss in zip(signature.outputs.items(), losses, strict=True):
        shape = (batch_size, *_closed(inside))
        if loss is None:
            continue
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
    """Of a function or a class, whatever name the object was given; that of the code comes first.

    A class of the user's own may be derived from one whose name tells more.
    """
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
def _random_numbers_kept() -> Generator[None]:
    """Python's and NumPy's random numbers go on as if nothing had been drawn: Keras draws seeds."""
    python, numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
