"""The membership of a run: present and lost workers, their tasks and deadlines; pure.

`Membership` knows the workers by connection, `Stalls` which of them make no progress, `Delivery`
which of them was asked for the result. `DriverClock` is the clock by which all are judged.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sparkwright.mesh.topology import Seat
from sparkwright.workers.protocol import Failure

from ._decisions import (
    Drop,
    LaunchTask,
    RequestResult,
    RequestSnapshot,
    ShowStalled,
    WorkerAlive,
    WorkerRegistered,
)

# A further attempt would only repeat these.
_PERMANENT = ("data", "configuration", "non_finite")
# After so long without a lost worker's replacement, a worker without data leaves it its slot. Where
# a slot is free, a replacement takes less.
_CEDE_SLOT_S = 20.0
# After so long, the task of a silent worker is replaced.
_REPLACE_SILENT_S = 10.0
# While a run is stopping: a worker that trains no minibatch for so long is not waited for.
STOP_TIMEOUT_S = 10.0
# What a stalled worker's control thread can still send is awaited for so long.
_SNAPSHOT_S = 3.0
# A worker that still sends so many heartbeats, one a second, is not sending the result: heartbeats
# wait while a large message is under way.
_BEATS_BEFORE_RESULT = 10
_BEATS_BEFORE_SNAPSHOT = 5


class Membership:
    """The workers of one run, by connection.

    Attributes:
        workers: how many belong to the run.
        required: how many of them hold data; the others may join and leave at any time.
        attempts: worker -> attempts seen; more than one means that it was started again.
        rows: worker -> (examples, validation examples) of every worker that ever came.
    """

    def __init__(
        self,
        *,
        workers: int,
        required: int | None = None,
        slots: int | None,
        rendezvous_timeout_s: float = 120.0,
        queue_timeout_s: float = 600.0,
        replacement_timeout_s: float = 120.0,
        stall_timeout_s: float = 60.0,
        replace_stalled: bool = False,
        max_failures: int = 4,
        now_s: float,
    ) -> None:
        """Begin to wait, now; see `MeshConfig` for the time-outs.

        The first `required` workers, by default all, have one task at first; the others are
        launched while all of these are present. After `max_failures` failures of a worker's tasks
        without a minibatch of it in between, the run ends, or goes on without it if it is not
        required.
        """
        self.workers = workers
        self.required = workers if required is None else required
        self._are_required = frozenset(range(self.required))
        self.attempts: dict[int, int] = {}
        self.rows: dict[int, tuple[int, int]] = {}
        self._slots = slots
        self._registered: dict[int, WorkerRegistered] = {}
        self._began_s = now_s
        self._first_came_s: float | None = None
        self._lost_since_s: dict[int, float] = {}
        self._ceded: set[int] = set()  # of these, for whom another worker has left
        self._silent_since_s: dict[int, float] = {}  # of lost workers, whose tasks may not end
        self._rendezvous_timeout_s = rendezvous_timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._replacement_timeout_s = replacement_timeout_s
        # Running or waiting for a slot, of each worker.
        self._tasks = [1] * self.required + [0] * (workers - self.required)
        self._failed = [0] * workers  # failures since a minibatch of it counted
        self._steps = [0] * workers  # minibatches that counted at its last failure
        self._max_failures = max_failures
        self._stalls = Stalls(timeout_s=stall_timeout_s)
        self._replace_stalled = replace_stalled
        self._stopping_since_s: float | None = None
        self._asked: dict[int, float] = {}  # stalled connection -> when its snapshot was requested

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Worker -> its registration, of those connected."""
        return {found.worker: found for found in self._registered.values()}

    @property
    def all_present(self) -> bool:
        """Whether no required worker is missing."""
        return self._are_required.issubset(self.present)

    @property
    def any_data_present(self) -> bool:
        """Whether any required worker is connected; without one there is nothing to train."""
        return not self._are_required.isdisjoint(self.present)

    @property
    def may_grow(self) -> bool:
        """Whether workers may join that are not required."""
        return self.workers > self.required

    def refusal(self, event: WorkerRegistered) -> str:
        """Why `event` cannot be admitted; empty if it can."""
        known = self.present.get(event.worker)
        if known is not None and known.attempt >= event.attempt:
            return f"a newer attempt of worker {event.worker} is already at work"
        if event.worker >= self.required and not self.all_present:
            return "a lost worker's replacement may need the slot of this one"
        return ""

    def admit(self, event: WorkerRegistered, now_s: float) -> int | None:
        """Take a worker in; returns the connection of the attempt that it replaces, if any."""
        known = self.present.get(event.worker)
        if known is not None:
            del self._registered[known.connection]
        self._registered[event.connection] = event
        self.rows[event.worker] = (event.rows, event.validation_rows)
        self._lost_since_s.pop(event.worker, None)
        self._silent_since_s.pop(event.worker, None)
        self._ceded.discard(event.worker)
        self.attempts[event.worker] = self.attempts.get(event.worker, 0) + 1
        if self._first_came_s is None:
            self._first_came_s = now_s
        return None if known is None else known.connection

    def lose(
        self, connection: int, now_s: float, *, silent: bool = False
    ) -> WorkerRegistered | None:
        """A connection is gone, or was closed as `silent`; returns whose it was, if a worker's."""
        found = self._registered.pop(connection, None)
        self._stalls.forget(connection)
        self._asked.pop(connection, None)
        if found is not None:
            if found.worker < self.required:
                self._lost_since_s[found.worker] = now_s
            if silent:
                self._silent_since_s[found.worker] = now_s
        return found

    # -- tasks ------------------------------------------------------------------------------

    def task_ended(
        self, worker: int, failure: Failure | None, *, steps: Sequence[int]
    ) -> Failure | None:
        """Count the end of a task; returns the failure that ends the run, if this one does.

        `steps` are the minibatches of each worker that count.
        """
        self._tasks[worker] = max(0, self._tasks[worker] - 1)
        self._silent_since_s.pop(worker, None)
        if failure is None:
            return None
        is_required = worker < self.required
        if failure.kind in _PERMANENT:
            self._failed[worker] = self._max_failures
            return failure if is_required else None
        if steps[worker] > self._steps[worker]:
            self._failed[worker] = 0
        self._steps[worker] = steps[worker]
        self._failed[worker] += 1
        if self._failed[worker] < self._max_failures or not is_required:
            return None
        count = self._failed[worker]
        attempts = f" ({count} attempts failed)" if count > 1 else ""
        return replace(failure, reason=f"{failure.reason}{attempts}")

    def launch(self, worker: int) -> list[LaunchTask]:
        """The action that starts `worker` again if it is lost and no task of it is left.

        While one is left, Spark restarts it.
        """
        if worker in self.present or self._tasks[worker]:
            return []
        if worker >= self.required and not self._may_join(worker):
            return []
        self._tasks[worker] += 1
        return [LaunchTask(worker=worker)]

    def launch_joining(self) -> list[LaunchTask]:
        """The actions that start workers without data, whose tasks wait until slots are free."""
        joining = range(self.required, self.workers)
        return [action for worker in joining for action in self.launch(worker)]

    def _may_join(self, worker: int) -> bool:
        # A required worker's task comes first: it may need the slot.
        return self.all_present and self._failed[worker] < self._max_failures

    def cede_slots(self, now_s: float) -> list[int]:
        """Connections of workers without data whose slots lost required workers may need."""
        joined = sorted(w for w in self.present if w >= self.required)
        found: list[int] = []
        for worker, since_s in self._lost_since_s.items():
            wait_s = min(_CEDE_SLOT_S, self._replacement_timeout_s / 2)
            if joined and now_s - since_s >= wait_s and worker not in self._ceded:
                self._ceded.add(worker)
                found.append(self.present[joined.pop()].connection)
        return found

    def replace_silent(self, now_s: float) -> list[LaunchTask]:
        """Return the actions that replace tasks which may hold their slots forever.

        A worker that fell silent normally notices that its connection is closed, and its task ends.
        A paused process, or a vanished machine, does not.
        """
        actions: list[LaunchTask] = []
        for worker, since_s in list(self._silent_since_s.items()):
            if now_s - since_s >= _REPLACE_SILENT_S:
                del self._silent_since_s[worker]
                self._tasks[worker] += 1
                actions.append(LaunchTask(worker=worker, replaces=True))
        return actions

    # -- progress ---------------------------------------------------------------------------

    def stop_requested(self, now_s: float) -> None:
        """The run ends with the next averaging."""
        if self._stopping_since_s is None:
            self._stopping_since_s = now_s

    def heartbeat(self, event: WorkerAlive, now_s: float) -> list[ShowStalled]:
        """Take a heartbeat."""
        found = self._registered.get(event.connection)
        if found is None:
            return []
        recovered = self._stalls.heard(
            event.connection, steps=event.steps, computing=event.computing, now_s=now_s
        )
        return [ShowStalled(worker=found.worker, seconds=0.0)] if recovered else []

    def stalled(self, now_s: float) -> list[ShowStalled | RequestSnapshot | Drop]:
        """What to do about workers that make no progress."""
        actions: list[ShowStalled | RequestSnapshot | Drop] = []
        for connection in self._stalls.newly_stalled(now_s):
            worker = self._registered[connection].worker
            seconds = self._stalls.seconds(connection, now_s)
            actions.append(ShowStalled(worker=worker, seconds=seconds))
        ending = self._stopping_since_s
        if ending is not None and now_s - ending >= STOP_TIMEOUT_S:
            hung = self._stalls.stalled(now_s, since_s=now_s - STOP_TIMEOUT_S)
        else:
            hung = self._stalls.stalled(now_s) if self._replace_stalled else []
        for connection in hung:
            if connection not in self._asked:
                self._asked[connection] = now_s
                actions.append(RequestSnapshot(connection=connection))
            elif now_s - self._asked[connection] >= _SNAPSHOT_S:
                actions.append(Drop(connection=connection))
        return actions

    def seats(self, connections: Collection[int]) -> tuple[Seat, ...]:
        """The seats of some workers, by number."""
        chosen = [self._registered[connection] for connection in connections]
        return tuple(
            Seat(worker=r.worker, host=r.address[0], port=r.address[1], attempt=r.attempt)
            for r in sorted(chosen, key=lambda r: r.worker)
        )

    @property
    def all_rows(self) -> tuple[int, ...]:
        """Examples of every worker; all required ones must have come once."""
        return tuple(self._rows_of(worker)[0] for worker in range(self.workers))

    @property
    def all_validation_rows(self) -> tuple[int, ...]:
        """Validation examples of every worker; all required ones must have come once."""
        return tuple(self._rows_of(worker)[1] for worker in range(self.workers))

    def _rows_of(self, worker: int) -> tuple[int, int]:
        return self.rows[worker] if worker < self.required else (0, 0)

    def gathering_problem(self, now_s: float) -> str:
        """Why it makes no sense to wait any longer for the first group; empty if it does."""
        slots = "" if self._slots is None else f" Spark has {self._slots} task slots."
        if self._first_came_s is not None and (
            now_s - self._first_came_s > self._rendezvous_timeout_s
        ):
            missing = sorted(self._are_required - set(self.present))
            return (
                f"the driver waited {self._rendezvous_timeout_s:g} s for {self.required} workers "
                f"and {len(self._registered)} came; missing: workers {missing}.{slots} Give Spark "
                "as many slots as there are workers (`spark.executor.instances`, "
                "`spark.executor.cores`), or use fewer with `workers=…`; if they are only slow, "
                "raise `MeshConfig(rendezvous_timeout_s=…)`."
            )
        if self._first_came_s is None and now_s - self._began_s > self._queue_timeout_s:
            return (
                f"no worker started within {self._queue_timeout_s:g} s.{slots} Other jobs may hold "
                "all slots, or the cluster has no room: see Spark's web page. Raise "
                "`MeshConfig(queue_timeout_s=…)` to wait longer."
            )
        return ""

    def replacement_problem(self, now_s: float) -> str:
        """Which lost worker has been waited for too long; empty if none."""
        for worker, since_s in sorted(self._lost_since_s.items()):
            if now_s - since_s > self._replacement_timeout_s:
                return (
                    f"worker {worker} was lost, and its replacement did not register within "
                    f"{self._replacement_timeout_s:g} s. The log of its executor shows why; raise "
                    "`MeshConfig(replacement_timeout_s=…)` if the cluster is only slow."
                )
        return ""


@dataclass(slots=True)
class _Seen:
    steps: int
    since_s: float  # when `steps` changed last, or computing began
    shown: bool = False


class Stalls:
    """Watches the step counters in heartbeats.

    Heartbeats come from a thread of their own, so a worker whose training thread hangs (in a hook,
    a file system, a driver) sends them as if nothing were wrong. A worker that waits for others
    does not compute, and is never stalled.
    """

    def __init__(self, *, timeout_s: float) -> None:
        """Call a worker stalled after `timeout_s` without progress."""
        self._timeout_s = timeout_s
        self._seen: dict[int, _Seen] = {}  # by connection

    def heard(self, connection: int, *, steps: int, computing: bool, now_s: float) -> bool:
        """Take a heartbeat; returns whether a worker shown as stalled makes progress again."""
        seen = self._seen.get(connection)
        if seen is not None and computing and seen.steps == steps:
            return False
        self._seen.pop(connection, None)
        if computing:
            self._seen[connection] = _Seen(steps, now_s)
        return seen is not None and seen.shown

    def forget(self, connection: int) -> None:
        """The connection is gone."""
        self._seen.pop(connection, None)

    def stalled(self, now_s: float, *, since_s: float | None = None) -> list[int]:
        """Connections without progress for the time-out; with `since_s`, since that moment."""
        return [
            connection
            for connection, seen in self._seen.items()
            if (seen.since_s <= since_s if since_s is not None else self._is_late(seen, now_s))
        ]

    def newly_stalled(self, now_s: float) -> list[int]:
        """Those of `stalled` that were not returned before."""
        found = [c for c in self.stalled(now_s) if not self._seen[c].shown]
        for connection in found:
            self._seen[connection].shown = True
        return found

    def seconds(self, connection: int, now_s: float) -> float:
        """How long `connection` has made no progress."""
        return now_s - self._seen[connection].since_s

    def _is_late(self, seen: _Seen, now_s: float) -> bool:
        return now_s - seen.since_s >= self._timeout_s


class Delivery:
    """Asks one worker's training thread first, then the control threads of several workers."""

    def __init__(self) -> None:
        self._asked: dict[int, int] = {}  # connection -> heartbeats since the request
        self._any = False  # snapshots have been requested

    def request(self, connection: int) -> list[RequestResult]:
        """Ask `connection` for the result."""
        self._asked, self._any = {connection: 0}, False
        return [RequestResult(connection=connection)]

    def request_snapshots(self, connections: Iterable[int]) -> list[RequestSnapshot]:
        """Ask the control threads of `connections` for the last average, once."""
        if self._any:
            return []
        self._asked, self._any = dict.fromkeys(connections, 0), True
        return [RequestSnapshot(connection=connection) for connection in self._asked]

    def awaits(self, connection: int) -> bool:
        """Whether `connection` has been asked."""
        return connection in self._asked

    def lose(self, connection: int) -> bool:
        """Handle a closed connection; return whether no asked worker is left."""
        return self._asked.pop(connection, None) is not None and not self._asked

    def heartbeat(self, connection: int) -> Literal["sending", "hung", "failed"]:
        """Take a heartbeat: "hung" asks for snapshots, "failed" means that none will come."""
        if connection in self._asked:
            self._asked[connection] += 1
        beats = min(self._asked.values(), default=0)
        if self._any:
            return "failed" if beats >= _BEATS_BEFORE_SNAPSHOT else "sending"
        return "hung" if beats >= _BEATS_BEFORE_RESULT else "sending"


class DriverClock:
    """A monotonic clock that stands still while this process does.

    A driver that was suspended, or blocked by C code, receives no messages meanwhile, although its
    workers are alive. So a gap between two ticks counts as one tick.
    """

    def __init__(self, now_s: float, *, longest_gap_s: float) -> None:
        """Start at `now_s`."""
        self._now_s = self._ticked_s = now_s
        self._longest_gap_s = longest_gap_s

    def tick(self, now_s: float) -> float:
        """Advance to the machine's `now_s`; returns the time."""
        self._now_s = self.at(now_s)
        self._ticked_s = now_s
        return self._now_s

    def at(self, now_s: float) -> float:
        """The time at the machine's `now_s`."""
        return self._now_s + min(max(0.0, now_s - self._ticked_s), self._longest_gap_s)
