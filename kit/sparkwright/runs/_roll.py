"""Who of a run's workers is there, who was lost, and how long to wait for whom; pure."""

from collections.abc import Collection

from ._decisions import WorkerRegistered
from ._protocol import Seat


class Roll:
    """The workers of one run, by connection.

    Attributes:
        workers: how many belong to the run.
        attempts: worker -> attempts seen; more than one means that Spark started it again.
        rows: worker -> (examples, validation examples) of every worker that ever came.
    """

    def __init__(
        self,
        *,
        workers: int,
        slots: int | None,
        rendezvous_timeout_s: float,
        queue_timeout_s: float,
        replacement_timeout_s: float,
        now_s: float,
    ) -> None:
        """Begin to wait, now; see `MeshConfig` for the time-outs."""
        self.workers = workers
        self.attempts: dict[int, int] = {}
        self.rows: dict[int, tuple[int, int]] = {}
        self._slots = slots
        self._registered: dict[int, WorkerRegistered] = {}
        self._began_s = now_s
        self._first_came_s: float | None = None
        self._lost_since_s: dict[int, float] = {}
        self._rendezvous_timeout_s = rendezvous_timeout_s
        self._queue_timeout_s = queue_timeout_s
        self._replacement_timeout_s = replacement_timeout_s

    @property
    def present(self) -> dict[int, WorkerRegistered]:
        """Worker -> its registration, of those connected."""
        return {found.worker: found for found in self._registered.values()}

    @property
    def all_present(self) -> bool:
        """Whether nobody is missing."""
        return len(self._registered) == self.workers

    def refusal(self, event: WorkerRegistered) -> str:
        """Why `event` cannot be admitted; empty if it can."""
        known = self.present.get(event.worker)
        if known is not None and known.attempt >= event.attempt:
            return f"a newer attempt of worker {event.worker} is already at work"
        return ""

    def admit(self, event: WorkerRegistered, now_s: float) -> int | None:
        """Take a worker in; returns the connection of the attempt that it replaces, if any."""
        known = self.present.get(event.worker)
        if known is not None:
            del self._registered[known.connection]
        self._registered[event.connection] = event
        self.rows[event.worker] = (event.rows, event.validation_rows)
        self._lost_since_s.pop(event.worker, None)
        self.attempts[event.worker] = self.attempts.get(event.worker, 0) + 1
        if self._first_came_s is None:
            self._first_came_s = now_s
        return None if known is None else known.connection

    def lose(self, connection: int, now_s: float) -> WorkerRegistered | None:
        """A connection is gone; returns whose it was, if it was a worker's."""
        found = self._registered.pop(connection, None)
        if found is not None:
            self._lost_since_s[found.worker] = now_s
        return found

    def seats(self, connections: Collection[int]) -> tuple[Seat, ...]:
        """The seats of some workers, by number."""
        chosen = [self._registered[connection] for connection in connections]
        return tuple(
            Seat(worker=r.worker, host=r.address[0], port=r.address[1], attempt=r.attempt)
            for r in sorted(chosen, key=lambda r: r.worker)
        )

    @property
    def all_rows(self) -> tuple[int, ...]:
        """Examples of every worker; all must have come once."""
        return tuple(self.rows[worker][0] for worker in range(self.workers))

    @property
    def all_validation_rows(self) -> tuple[int, ...]:
        """Validation examples of every worker; all must have come once."""
        return tuple(self.rows[worker][1] for worker in range(self.workers))

    def gathering_problem(self, now_s: float) -> str:
        """Why it makes no sense to wait any longer for the first group; empty if it does."""
        slots = "" if self._slots is None else f" Spark has {self._slots} task slots."
        if self._first_came_s is not None and (
            now_s - self._first_came_s > self._rendezvous_timeout_s
        ):
            missing = sorted(set(range(self.workers)) - set(self.present))
            return (
                f"the driver waited {self._rendezvous_timeout_s:g} s for {self.workers} workers "
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
                    f"worker {worker} was lost and Spark did not start it again within "
                    f"{self._replacement_timeout_s:g} s. Its executor's log says why; raise "
                    "`MeshConfig(replacement_timeout_s=…)` if the cluster is only slow."
                )
        return ""
