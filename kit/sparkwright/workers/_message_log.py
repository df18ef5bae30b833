"""What a sharing worker logs of its messages: residual, encoding, and sizes of updates."""

import math
import time

import numpy as np
from numpy.typing import NDArray

from sparkwright.updates import Encoded

from ._flat import MEASURE_EVERY_S, Vector, sample_of, update_ratio
from ._member import RunMember
from ._minibatches import RoundDone
from ._peer_updates import HEADER_BYTES, PeerUpdates
from ._shared_parameters import SharedParameters

# Minimum interval of residual measurements without debug mode, and their maximum share of time.
_STATISTICS_S, _STATISTICS_SHARE = 1.0, 0.02


class MessageLog:
    """Measure messages now and then, because measuring takes time from training."""

    def __init__(
        self, member: RunMember, shared: SharedParameters, updates: PeerUpdates, *, debug: bool
    ) -> None:
        self._state, self._control = member.replica.state, member.control
        self._shared, self._updates, self._debug = shared, updates, debug
        self._before: Vector | None = None  # sample of the parameters, if an update is measured
        self._measured_s = -math.inf
        self._statistics_s = 0.0  # time of the next residual measurement

    def before_training(self) -> None:
        """Sample the parameters if the next update is to be measured."""
        now_s, self._before = time.monotonic(), None
        if now_s - self._measured_s >= MEASURE_EVERY_S:
            self._measured_s = now_s
            self._before = sample_of(self._state.trainable_views())

    def after_training(self, done: RoundDone, *, minibatches: int) -> None:
        """Add the size of the update to the readings of `done`, if it is to be measured."""
        if self._before is not None:
            after = sample_of(self._state.trainable_views())
            ratio = update_ratio(self._before, after, minibatches=minibatches)
            done.readings["update_ratio"] = ratio

    def residual(self) -> dict[str, float]:
        """Return statistics of the residual before encoding; NaN if not due."""
        now_s = time.monotonic()
        if not (self._debug or now_s >= self._statistics_s):
            return dict.fromkeys(("residual_p50", "residual_p99", "residual_max"), np.nan)
        statistics = self._shared.statistics(exact=self._debug)
        took_s = time.monotonic() - now_s
        self._statistics_s = now_s + max(_STATISTICS_S, took_s / _STATISTICS_SHARE)
        if self._debug:
            step = self._updates.clock + 1
            self._control.send("debug", {"step": step, "line": statistics.line()})
        median, _, p99, *_ = statistics.percentiles
        return {"residual_p50": median, "residual_p99": p99, "residual_max": statistics.maximum}

    def columns(
        self, encoded: Encoded, residual: dict[str, float], *, minibatches: int
    ) -> dict[str, NDArray[np.float32]]:
        """Return log columns of a sent message, a row per minibatch; the last has its bytes."""
        values = {
            "threshold": encoded.thresholds[0],
            "sparsity": encoded.selected / encoded.size,
            "message_bytes": encoded.size_bytes + HEADER_BYTES,
            "staleness": self._updates.staleness,
            **residual,
        }
        columns = {name: np.full(minibatches, v, np.float32) for name, v in values.items()}
        columns["message_bytes"][:-1] = 0
        return columns
