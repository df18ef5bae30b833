"""The best state of a run, kept in memory and, if wanted, saved while the run goes on."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.mesh._framing import Message
from sparkwright.networks import ModelDefinition

from ._engine import Outcome, StartState
from ._protocol import Progress

Save = Callable[[Any, str], None]
_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class KeptState:
    """The state of a network at the end of an epoch.

    Attributes:
        epoch: from 1.
        vector: the floating-point state, 1-D, see `ModelState.read`.
        counters: worker 0's integer state, packed.
        iterations: the optimizer's.
    """

    epoch: int
    vector: NDArray[Any]
    counters: bytes
    iterations: int

    @classmethod
    def of(cls, message: Message, epoch: int) -> "KeptState":
        """What a worker sent."""
        fields = message.fields
        vector = np.frombuffer(message.payload, np.dtype(fields["dtype"]), int(fields["size"]))
        return cls(
            epoch=epoch,
            vector=vector,
            counters=bytes(memoryview(message.payload)[vector.nbytes :]),
            iterations=int(fields["progress"]["iterations"]),
        )


class ModelKeeper:
    """Keeps the best state, and saves models on a thread of its own.

    The user's model is not touched: what is saved is a model of the same definition.

    Attributes:
        best: the best state so far; None before the first.
        best_url: where it has been saved, the latest one included; None: nowhere.
    """

    def __init__(self, definition: ModelDefinition, *, save: Save, url: str | None) -> None:
        """Nothing is kept yet.

        Args:
            definition: of the network.
            save: writes a model to a URL, atomically.
            url: where to save the best one; None: nowhere.
        """
        self.best: KeptState | None = None
        self.best_url: str | None = None
        self.first: tuple[NDArray[Any], bytes] | None = None
        self._definition, self._save, self._url = definition, save, url
        self._changed = threading.Condition()
        self._waiting: KeptState | None = None
        self._closed = False
        self._scratch: StartState | None = None
        self._model: Any = None
        self._thread: threading.Thread | None = None

    def begin(self, vector: NDArray[Any], extras: bytes) -> None:
        """The run starts from this state, which also holds what training does not change."""
        self.first = (vector, extras)

    def keep(self, state: KeptState) -> None:
        """`state` is the best so far; returns at once. Its arrays must not change any more."""
        with self._changed:
            self.best = state
            if self._url is None or self._closed:
                return
            self._waiting = state
            if self._thread is None:
                caller = threading.current_thread().name
                self._thread = threading.Thread(
                    target=self._main, name=f"{caller}-best-model", daemon=True
                )
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> bool:
        """Save what waits, then end the thread. Returns whether it ended within `timeout_s`."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            _log.warning("the best model is not saved to %s after %g s", self._url, timeout_s)
        return not self._thread.is_alive()

    def save_now(self, outcome: Outcome, url: str) -> str | None:
        """Save the state of `outcome`, after `close`; returns `url`, or None if that failed."""
        try:
            self._write(outcome, url)
        except Exception as error:  # what was learnt is in memory all the same
            _log.warning("no model saved to %s: %s", url, error)
            return None
        return url

    def _main(self) -> None:
        assert self._url is not None
        while (state := self._next()) is not None:
            outcome = Outcome(
                vector=state.vector,
                counters=state.counters,
                progress=Progress(iterations=state.iterations),
            )
            # An older file that is whole stays where it is.
            self.best_url = self.save_now(outcome, self._url) or self.best_url

    def _next(self) -> KeptState | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closed)
            state, self._waiting = self._waiting, None
            return state

    def _write(self, outcome: Outcome, url: str) -> None:
        if self._scratch is None:
            self._model = self._definition.build()
            self._scratch = StartState(self._model)
            if self.first is not None:
                self._scratch.restore(*self.first)
        self._scratch.take(outcome)
        self._save(self._model, url)
