"""Compute histograms of a worker's network between minibatches, and send them to the driver."""

import contextlib
import time
from collections.abc import Generator, Sequence
from typing import Any

import numpy as np

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
    """Computes histograms on the group's lowest worker; only reads, so results stay identical."""

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
        self._spent_s = 0.0

    def is_due(self, group: Group, step: int) -> bool:
        """Return whether this worker computes histograms after its minibatch `step`."""
        if self._settings.worker != min(seat.worker for seat in group.seats):
            self._control.histograms_asked.clear()  # that worker handles the request
            return False
        return self._schedule.is_due(step, asked=self._control.histograms_asked.is_set())

    def sample(self, vector: Vector | None = None) -> list[Vector]:
        """Return samples of the variables for `take`: current values, or those in `vector`."""
        with self._measured():
            if vector is not None:
                return self._variables.cut(vector)
            return self._variables.sample(self._replica.state.trainable_views())

    def take(
        self, after: Sequence[Vector], before: Sequence[Vector], *, step: int, **moment: int
    ) -> None:
        """Compute and send histograms of two samples and of activations; see `HistogramsTaken`."""
        self._control.histograms_asked.clear()
        self._schedule.record(step)
        notes, found = list[str](), dict[tuple[str, str], Histogram]()
        with self._measured():
            try:
                found |= self._variables.histograms(after, before)
                if "activations" in self._options.of:
                    found |= self._activations(notes)
            except Exception as error:  # for example from a user's layer
                reason = next(iter(str(error).strip().splitlines()), "")
                notes.append(f"Some could not be taken. {type(error).__name__}: {reason:.200}")
        seconds, self._spent_s = self._spent_s, 0.0
        taken = HistogramsTaken(
            step=step, seconds=seconds, found=found, notes=tuple(notes), **moment
        )
        self._control.send("histograms", *taken.message)

    @contextlib.contextmanager
    def _measured(self) -> Generator[None]:
        began_s = time.monotonic()
        yield
        self._spent_s += self._phases.since(PhaseCode.HISTOGRAMS, began_s) - began_s

    def _activations(self, notes: list[str]) -> dict[tuple[str, str], Histogram]:
        """Return histograms of layer outputs in inference mode, on the first examples."""
        model, shard, replica = self._replica.model, self._shard, self._replica
        outputs = layer_outputs(model, notes)
        outputs = {name: each for name, each in outputs.items() if self._options.selects(name)}
        if not shard.columns:
            notes.append("Activations need examples in the worker's files, which it has none of.")
        if not (outputs and shard.columns):
            return {}
        count = min(_MOST_EXAMPLES, self._settings.master.batch_size_per_worker, shard.rows)
        block = shard.gather(np.arange(count))
        counters = [np.array(variable.numpy()) for variable in replica.state.counters]
        values = replica.outputs(BatchLayout(model, shard.columns), block, outputs)
        # A user's layer may also draw random numbers in inference.
        for variable, value in zip(replica.state.counters, counters, strict=True):
            if not np.array_equal(variable.numpy(), value):
                variable.assign(value)
        return {
            ("activations", name): Histogram.of(each, self._options.bins)
            for name, each in zip(outputs, values, strict=True)
        }


def layer_outputs(model: Any, notes: list[str]) -> dict[str, Any]:
    """Return each layer's symbolic output; append a note on layers without one to `notes`."""
    if not getattr(model, "inputs", None):
        notes.append(
            "Activations need a sequential or functional network. "
            f"This one is a {type(model).__name__}."
        )
        return {}
    found: dict[str, Any] = {}
    for layer in model.layers:
        if type(layer).__name__ == "InputLayer":
            continue
        try:
            found[layer.name] = layer.output
        except (AttributeError, ValueError, RuntimeError):
            found[layer.name] = None
    missing = [name for name, each in found.items() if each is None or not hasattr(each, "shape")]
    if missing:
        notes.append(
            "Without activations, because they are used more than once or have several outputs: "
            f"{', '.join(missing[:10])}{' and more' if missing[10:] else ''}."
        )
    return {name: each for name, each in found.items() if name not in missing}
