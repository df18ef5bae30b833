"""Averaging in gradient sharing: at meetings, all workers get equal states."""

import struct
import time
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from sparkwright.masters import SharedTrainingMaster
from sparkwright.mesh.ring import Ring
from sparkwright.timeline import PhaseCode
from sparkwright.workers.protocol import Group

from ._gathering import exchanged
from ._member import RunMember
from ._minibatches import non_finite_state
from ._peer_updates import PeerUpdates
from ._shared_parameters import SharedParameters
from .requests import WorkerSettings


class _Report(NamedTuple):
    """A worker's report, exchanged before averaging."""

    sequence: int  # of its last update
    clock: int
    minibatches: int  # since the last averaging
    iterations: int


_REPORT = struct.Struct("<qqqq")


class Meetings:
    """Average a worker's state with the others'."""

    def __init__(
        self,
        settings: WorkerSettings[SharedTrainingMaster],
        member: RunMember,
        shared: SharedParameters,
        updates: PeerUpdates,
    ) -> None:
        self._settings, self._member, self._kept = settings, member, member.kept
        self._replica, self._shared, self._updates = member.replica, shared, updates
        self.minibatches = 0  # since the last averaging: the weight in the next one

    def reset_to_shared(self) -> None:
        """Reset to the shared state; this worker then has weight 0 in the next average."""
        # Including the optimizer's moments, which may be NaN.
        state = self._kept.average.copy()
        state[: self._shared.vector.size] = self._shared.vector
        self._replica.state.write(state)
        self.minibatches = 0

    def average(self, ring: Ring, group: Group, *, validate: bool) -> None:
        """Apply all updates, average, keep the average, and validate it if asked."""
        replica, shared, kept = self._replica, self._shared, self._kept
        phases, updates = self._member.phases, self._updates
        began_s = time.monotonic()
        if not replica.state.is_finite(updater=True):
            self.reset_to_shared()
            if self._settings.stop_at_non_finite:
                raise non_finite_state(group.progress.epoch, worker=self._settings.worker)
        mine = _Report(
            sequence=updates.sequence,
            clock=updates.clock,
            minibatches=self.minibatches,
            iterations=replica.state.iterations,
        )
        reports = exchanged(ring, mine, _REPORT)
        phases.since(PhaseCode.WAIT, began_s)
        sequences = [report.sequence for report in reports]
        updates.absorb_until(ring, group, sequences, check=self._member.control.check)
        met_s = time.monotonic()
        weights = [report.minibatches for report in reports]
        if not sum(weights):
            weights = [1] * ring.size
        size, share = shared.vector.size, weights[ring.rank] / sum(weights)
        residual = shared.residual()
        mean_residual = residual / ring.size
        kept.mean(ring, weights)
        np.multiply(shared.vector, share, out=kept.work[:size])
        if ring.size > 1:
            ring.all_reduce(kept.work)
            ring.all_reduce(mean_residual)
        averaged_s = phases.since(PhaseCode.AVERAGE, met_s)
        shared.reset(kept.work[:size])
        # Validate, keep and deliver the mean of the replicas, which includes unsent updates. The
        # full sum of residuals would overshoot, because they point in similar directions.
        kept.work[:size] -= mean_residual
        replica.state.write(kept.work)
        replica.state.set_iterations(max(report.iterations for report in reports))
        updates.meet(max(report.clock for report in reports))
        kept.keep(replace(group.progress, iterations=replica.state.iterations))
        phases.since(PhaseCode.APPLY, averaged_s)
        try:
            if validate:
                self._member.validate(ring)
        finally:
            replica.state.write(np.subtract(shared.vector, residual, out=residual))
