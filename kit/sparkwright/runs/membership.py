"""The membership of a run: connected and lost workers, their tasks and deadlines; pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sparkwright.mesh.topology import Seat
from sparkwright.workers.protocol import Failure
from sparkwright.workers.work import Span

from ._decisions import Drop, LaunchTask, RequestSnapshot, ShowStalled
from ._observations import WorkerAlive, WorkerRegistered
from ._watching import Stalls
from .poison import REMEDY, Deaths

# Failures that a further attempt would repeat.
_PERMANENT = ("data", "configuration", "non_finite", "session")
# A worker without data leaves its slot to a lost worker's replacement that has not registered
# within this time. With a free slot, a replacement registers earlier.
_CEDE_SLOT_S = 20.0
# The task of a silent worker is replaced after this time.
_REPLACE_SILENT_S = 10.0
# A stopping run does not wait for a worker without progress for longer than this.
STOP_TIMEOUT_S = 10.0
# Maximum wait for the snapshot of a stalled worker's control thread.
_SNAPSHOT_S = 3.0


class Membership:
    """The workers of one run, by connection."""

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
        place_of: Callable[[Span], str] = str,
        rows_of: Callable[[Span], tuple[Sequence[int], int]] = lambda _: ((), 0),
        now_s: float,
    ) -> None:
        """Start to wait for workers at `now_s`; see `MeshConfig` for the time-outs.

        The first `required` workers (default: all) start with one task each. The others are
        launched only while all required workers are present.

        After `max_failures` failed tasks of a worker without a trained minibatch in between, or of
        any workers that trained the same minibatch, which `place_of` names, or the same row, which
        `rows_of` finds, the run ends. If the worker is not required, the run continues without it.
        """
        self.workers = workers
        # Those that hold data; the others may join and leave.
        self.required = workers if required is None else required
        self._are_required = frozenset(range(self.required))
        self._no_rows = (0,) * (workers - self.required)  # of those that hold no data
        # Worker -> (examples, validation examples) of every worker that has registered.
        self.rows: dict[int, tuple[int, int]] = {}
        self._slots = slots
        self._registered: dict[int, WorkerRegistered] = {}
        self._began_s = now_s
        self._first_came_s: float | None = None
        self._lost_since_s: dict[int, float] = {}
        self._ceded: set[int] = set()  # lost workers for which another worker left its slot
        self._silent_since_s: dict[int, float] = {}  # lost workers whose tasks may never end
        self._rendezvous_timeout_s = rendezvous_timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._replacement_timeout_s = replacement_timeout_s
        # Number of each worker's tasks that run or wait for a slot.
        self._tasks = [1] * self.required + [0] * (workers - self.required)
        self._failed = [0] * workers  # failures since the worker's last minibatch that counts
        self._steps = [0] * workers  # minibatches that counted at the worker's last failure
        self._max_failures, self._place_of = max_failures, place_of
        self._deaths = Deaths(rows_of)
        self._stalls = Stalls(timeout_s=stall_timeout_s)
        self._replace_stalled = replace_stalled
        self._stopping_since_s: float | None = None
        self._asked: dict[int, float] = {}  # stalled connection -> when its snapshot was requested

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Connected worker -> its registration."""
        return {found.worker: found for found in self._registered.values()}

    @property
    def all_present(self) -> bool:
        """Whether all required workers are connected."""
        return self._are_required.issubset(self.present)

    @property
    def any_data_present(self) -> bool:
        """Whether any required worker is connected; only they hold data."""
        return not self._are_required.isdisjoint(self.present)

    def refusal(self, event: WorkerRegistered) -> str:
        """Return why the worker cannot be admitted; empty: it can."""
        known = self.present.get(event.worker)
        if known is not None and known.attempt >= event.attempt:
            return f"a newer attempt of worker {event.worker} is already registered"
        if event.worker >= self.required and not self.all_present:
            return "a lost worker's replacement may need the slot of this one"
        return ""

    def admit(self, event: WorkerRegistered, now_s: float) -> int | None:
        """Admit a worker; return the connection of the attempt that it replaces, or None."""
        known = self.present.get(event.worker)
        if known is not None:
            self._forget(known.connection)
        self._registered[event.connection] = event
        self.rows[event.worker] = (event.rows, event.validation_rows)
        self._lost_since_s.pop(event.worker, None)
        self._silent_since_s.pop(event.worker, None)
        self._ceded.discard(event.worker)
        if self._first_came_s is None:
            self._first_came_s = now_s
        return None if known is None else known.connection

    def _forget(self, connection: int) -> WorkerRegistered | None:
        self._stalls.remove(connection)
        self._asked.pop(connection, None)
        return self._registered.pop(connection, None)

    def lose(self, connection: int, now_s: float, *, silent: bool = False) -> None:
        """Remove a connection, which was lost or closed as `silent`."""
        found = self._forget(connection)
        if found is not None:
            if found.worker < self.required:
                self._lost_since_s[found.worker] = now_s
            if silent:
                self._silent_since_s[found.worker] = now_s

    # -- tasks ------------------------------------------------------------------------------

    def task_ended(
        self, worker: int, failure: Failure | None, *, steps: Sequence[int]
    ) -> Failure | None:
        """Count the end of a task; return the failure that ends the run, or None."""
        self._tasks[worker] = max(0, self._tasks[worker] - 1)
        self._silent_since_s.pop(worker, None)
        if failure is None:
            return None
        is_required = worker < self.required
        if failure.kind in _PERMANENT:
            self._failed[worker] = self._max_failures
            return failure if is_required else None
        if failure.at is not None:
            minibatches, count = self._deaths.add(Span(*failure.at))
            if count >= self._max_failures:
                return replace(
                    failure,
                    reason=f"{self._place_of(minibatches)} ended the process that trained its "
                    f"rows {count} times; last: {failure.reason} {REMEDY}",
                )
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
        """Return the action that launches `worker`; empty if it is present or may not join.

        It is also empty while a task of the worker is left, because Spark restarts that task.
        """
        if worker in self.present or self._tasks[worker]:
            return []
        # Required workers have priority: their tasks may need the slot.
        may_join = self.all_present and self._failed[worker] < self._max_failures
        if worker >= self.required and not may_join:
            return []
        self._tasks[worker] += 1
        return [LaunchTask(worker=worker)]

    def launch_joining(self) -> list[LaunchTask]:
        """Return the actions that launch workers without data; their tasks wait for free slots."""
        joining = range(self.required, self.workers)
        return [action for worker in joining for action in self.launch(worker)]

    def cede_slots(self, now_s: float) -> list[int]:
        """Return the connections of workers whose slots lost required workers may need."""
        joined = sorted(w for w in self.present if w >= self.required)
        found: list[int] = []
        for worker, since_s in self._lost_since_s.items():
            wait_s = min(_CEDE_SLOT_S, self._replacement_timeout_s / 2)
            if joined and now_s - since_s >= wait_s and worker not in self._ceded:
                self._ceded.add(worker)
                found.append(self.present[joined.pop()].connection)
        return found

    def replace_silent(self, now_s: float) -> list[LaunchTask]:
        """Return the actions that replace tasks that may hold their slots forever.

        Usually a silent worker detects that its connection is closed, and its task ends. A
        suspended process or an unreachable machine does not.
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
        """Record that the run ends with the next averaging."""
        self._stopping_since_s = now_s

    def heartbeat(self, event: WorkerAlive, now_s: float) -> list[ShowStalled]:
        """Process a heartbeat; return an action if a stalled worker has recovered."""
        found = self._registered.get(event.connection)
        if found is None:
            return []
        recovered = self._stalls.heartbeat(
            event.connection, steps=event.steps, computing=event.computing, now_s=now_s
        )
        return [ShowStalled(worker=found.worker, seconds=0.0)] if recovered else []

    def stalled(
        self, now_s: float, *, awaited: Collection[int] = ()
    ) -> list[ShowStalled | RequestSnapshot | Drop]:
        """Return the actions for workers that make no progress.

        After a stop, this includes the connections `awaited`.
        """
        actions: list[ShowStalled | RequestSnapshot | Drop] = []
        for connection, seconds in self._stalls.newly_stalled(now_s).items():
            worker = self._registered[connection].worker
            actions.append(ShowStalled(worker=worker, seconds=seconds))
        ending = self._stopping_since_s
        if ending is not None and now_s - ending >= STOP_TIMEOUT_S:
            hung = [*self._stalls.stalled(now_s, since_s=now_s - STOP_TIMEOUT_S), *awaited]
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
        """Return the seats of these connections, sorted by worker."""
        chosen = [self._registered[connection] for connection in connections]
        return tuple(
            Seat(worker=r.worker, host=r.address[0], port=r.address[1], attempt=r.attempt)
            for r in sorted(chosen, key=lambda r: r.worker)
        )

    @property
    def all_rows(self) -> tuple[int, ...]:
        """Number of examples of each worker; all required workers must have registered."""
        return (*(self.rows[worker][0] for worker in range(self.required)), *self._no_rows)

    @property
    def all_validation_rows(self) -> tuple[int, ...]:
        """Number of validation examples of each worker; all required must have registered."""
        return (*(self.rows[worker][1] for worker in range(self.required)), *self._no_rows)

    def gathering_problem(self, now_s: float) -> str:
        """Return the error message if the first group cannot form in time; empty: keep waiting."""
        slots = "" if self._slots is None else f" Spark has {self._slots} task slots."
        if self._first_came_s is not None and (
            now_s - self._first_came_s > self._rendezvous_timeout_s
        ):
            missing = sorted(self._are_required - set(self.present))
            return (
                f"{self.required} workers must register within {self._rendezvous_timeout_s:g} s. "
                f"Received: {len(self._registered)} registrations; missing: workers {missing}."
                f"{slots} Give Spark a slot for each worker (`spark.executor.instances`, "
                "`spark.executor.cores`), or use fewer workers (`workers=…`). For slow clusters, "
                "raise `MeshConfig(rendezvous_timeout_s=…)`."
            )
        if self._first_came_s is None and now_s - self._began_s > self._queue_timeout_s:
            return (
                f"no worker started within {self._queue_timeout_s:g} s.{slots} Other jobs may use "
                "all slots, or the cluster is full: see Spark's web interface. To wait longer, "
                "raise `MeshConfig(queue_timeout_s=…)`."
            )
        return ""

    def replacement_problem(self, now_s: float) -> str:
        """Return the error message if a lost worker was not replaced in time; empty otherwise."""
        for worker, since_s in sorted(self._lost_since_s.items()):
            if now_s - since_s > self._replacement_timeout_s:
                return (
                    f"worker {worker} was lost, and its replacement did not register within "
                    f"{self._replacement_timeout_s:g} s. See the log of its executor. For slow "
                    "clusters, raise `MeshConfig(replacement_timeout_s=…)`."
                )
        return ""
