"""Takes histograms of a worker's network between its minibatches, and sends them to the driver."""

import time
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.masters.histograms import Histograms, HistogramSchedule
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group

from ._batch_layout import BatchLayout
from ._control import ControlLine
from ._flat import Vector
from ._phases import PhaseRecorder
from ._replica_base import Replica
from .histograms import ChosenVariables, Histogram, HistogramsTaken
from .requests import WorkerSettings
from .shard import Shard

_MOST_EXAMPLES = 64


class HistogramTaker:
    """Of the members of a group, the one with the lowest number takes them.

    It only reads: what the network learns is the same to the bit. What goes wrong is a note for
    the driver, never the end of a run.
    """

    def __init__(
        self,
        settings: WorkerSettings[Any],
        replica: Replica,
        shard: Shard,
        control: ControlLine,
        phases: PhaseRecorder,
    ) -> None:
        self._settings, self._replica = settings, replica
        self._shard, self._control, self._phases = shard, control, phases
        self._options = settings.histograms or Histograms(every=None)
        self._schedule = HistogramSchedule(self._options.every)
        self._variables = ChosenVariables(replica.model, self._options)

    def is_due(self, group: Group, step: int) -> bool:
        """Whether this worker is to take some after its minibatch `step`."""
        if self._settings.worker != min(seat.worker for seat in group.seats):
            return False
        return self._schedule.is_due(step, asked=self._control.histograms_asked.is_set())

    def sample(self) -> list[Vector]:
        """Samples of the variables now, to be compared with those after some minibatches."""
        return self._variables.sample(self._replica.state.trainable_views())

    def take_of_vectors(
        self, after: Vector, before: Vector, *, step: int, epoch: int, minibatches: int
    ) -> None:
        """Take them of flat vectors that begin with the variables; send them."""
        began_s = time.monotonic()
        samples = (self._variables.cut(vector) for vector in (after, before))
        self._send(*samples, began_s=began_s, step=step, epoch=epoch, minibatches=minibatches)
        self._phases.since(PhaseCode.HISTOGRAMS, began_s)

    def take_since(
        self, before: Sequence[Vector], *, step: int, epoch: int, minibatches: int, seconds: float
    ) -> None:
        """Take them of the variables now and of `before`, a `sample` that took `seconds`."""
        began_s, after = time.monotonic(), self.sample()
        moment = {"step": step, "epoch": epoch, "minibatches": minibatches}
        self._send(after, before, began_s=began_s - seconds, **moment)
        self._phases.since(PhaseCode.HISTOGRAMS, began_s)

    def _send(
        self,
        after: Sequence[Vector],
        before: Sequence[Vector],
        *,
        began_s: float,
        step: int,
        epoch: int,
        minibatches: int,
    ) -> None:
        self._control.histograms_asked.clear()
        self._schedule.took(step)
        options, notes = self._options, list[str]()
        found = self._variables.histograms(after, before)
        if "activations" in options.of:
            try:
                found |= self._activations(notes)
            except Exception as error:  # such as of a layer of the user's
                reason = next(iter(str(error).strip().splitlines()), "")
                name = type(error).__name__
                notes.append(f"Activations cannot be taken. {name}: {reason:.200}")
        taken = HistogramsTaken(
            step=step,
            epoch=epoch,
            minibatches=minibatches,
            seconds=time.monotonic() - began_s,
            found=found,
            notes=tuple(notes),
        )
        self._control.send("histograms", *taken.to_message())

    # -- activations ------------------------------------------------------------------------

    def _activations(self, notes: list[str]) -> dict[tuple[str, str], Histogram]:
        """Of each layer's outputs, in inference mode, for the worker's first examples."""
        model, shard, replica = self._replica.model, self._shard, self._replica
        outputs = layer_outputs(model, notes)
        outputs = {name: each for name, each in outputs.items() if self._options.takes(name)}
        if not shard.columns:
            notes.append("Activations need examples in the worker's files, which it has none of.")
        if not (outputs and shard.columns):
            return {}
        count = min(_MOST_EXAMPLES, self._settings.master.batch_size_per_worker, shard.rows)
        block = shard.gather(np.arange(count))
        counters = [np.array(variable.numpy()) for variable in replica.state.counters]

        values = replica.outputs(BatchLayout(model, shard.columns), block, outputs)
        # A layer of the user's may draw random numbers in inference, too.
        for variable, value in zip(replica.state.counters, counters, strict=True):
            if not np.array_equal(variable.numpy(), value):
                variable.assign(value)
        bins = self._options.bins
        return {
            ("activations", name): Histogram.of(_flat(each), bins)
            for name, each in zip(outputs, values, strict=True)
        }


def layer_outputs(model: Any, notes: list[str]) -> dict[str, Any]:
    """The symbolic output of each layer; `notes` gets a sentence about those that have none."""
    if not getattr(model, "inputs", None):
        notes.append(
            "Activations need a sequential or functional network. "
            f"This one is a {type(model).__name__}."
        )
        return {}
    found: dict[str, Any] = {}
    left_out: list[str] = []
    for layer in model.layers:
        if type(layer).__name__ == "InputLayer":
            continue
        try:
            output = layer.output
        except (AttributeError, ValueError, RuntimeError):
            output = None
        if output is None or isinstance(output, list | tuple | dict):
            left_out.append(layer.name)
        else:
            found[layer.name] = output
    if left_out:
        notes.append(
            "Without activations, because they are used more than once or have several outputs: "
            f"{_listed(left_out)}."
        )
    return found


def _listed(names: Iterable[str]) -> str:
    first, *rest = [", ".join([*names][:10]), *[*names][10:]]
    return f"{first} and {len(rest)} more" if rest else first


def _flat(values: NDArray[Any]) -> Vector:
    kind = values.dtype
    return values.reshape(-1).astype(kind if kind.char in "fd" else np.float32)
