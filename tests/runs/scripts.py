"""Scripts of events for both coordinators, and the actions that are expected."""

from dataclasses import replace

from sparkwright.mesh.topology import Seat
from sparkwright.runs._averaging_coordinator import Coordinator
from sparkwright.runs._decisions import (
    Dismiss,
    RequestResult,
    SendGroup,
    SendMeeting,
    SendPiece,
    SendRegroup,
)
from sparkwright.runs._observations import (
    CheckpointReceived,
    ConnectionLost,
    ResultReceived,
    StopRequested,
    TimerFired,
    WorkerAlive,
    WorkerFailed,
    WorkerRegistered,
    WorkerReported,
    WorkReported,
)
from sparkwright.runs._sharing_coordinator import SharingCoordinator
from sparkwright.workers.protocol import Failure, Group, Progress
from sparkwright.workers.work import Span

GRACE_S = 2.0
FAILURE = Failure(worker=1, host="b", kind="non_finite", reason="the loss is NaN")
NOTHING = []


class Script:
    """A coordinator, the clock, and its workers' connections: 10 * worker + attempt."""

    def __init__(self, coordinator, workers, now_s=0.0):
        self.coordinator = coordinator
        self.workers, self.now_s = workers, now_s
        self.attempts = [0] * workers

    @property
    def progress(self):
        return self.coordinator.progress

    def handle(self, event):
        return self.coordinator.handle(event, now_s=self.now_s)

    def connection(self, worker):
        return 10 * worker + self.attempts[worker]

    def register(self, worker, attempt=0):
        self.attempts[worker] = max(attempt, self.attempts[worker])
        return self.handle(
            WorkerRegistered(
                connection=10 * worker + attempt,
                worker=worker,
                attempt=attempt,
                host=f"host-{worker}",
                address=(f"10.0.0.{worker}", 7000 + attempt),
                rows=100 + worker,
                validation_rows=worker,
            )
        )

    def lose(self, worker):
        return self.handle(ConnectionLost(connection=self.connection(worker)))

    def fail(self, failure=FAILURE):
        return self.handle(WorkerFailed(failure=failure))

    def stop(self):
        return self.handle(StopRequested())

    def tick(self, later_s=0.0):
        self.now_s += later_s
        return self.handle(TimerFired())

    def lives(self, worker, *, steps):
        """Its heartbeat."""
        connection = self.connection(worker)
        return self.handle(WorkerAlive(connection=connection, steps=steps, computing=False))

    def deliver(self, worker):
        return self.handle(ResultReceived(connection=self.connection(worker)))

    def reports(self, worker, ending, progress, **more):
        event = WorkerReported(
            connection=self.connection(worker),
            ending=ending,
            progress=progress,
            **{"generation": self.coordinator.generation, **more},
        )
        return self.handle(event)

    # -- what is expected -------------------------------------------------------------------

    def group(self, generation, members, progress, source):
        return Group(
            generation=generation,
            seats=tuple(
                Seat(
                    worker=w,
                    host=f"10.0.0.{w}",
                    port=7000 + self.attempts[w],
                    attempt=self.attempts[w],
                )
                for w in members
            ),
            rows=tuple(100 + w for w in range(self.workers)),
            validation_rows=tuple(range(self.workers)),
            progress=progress,
            source=source,
            owners=self.coordinator._membership.required,
        )

    def regroups(self, generation, *members):
        return [SendRegroup(connection=self.connection(w), generation=generation) for w in members]

    def request(self, worker):
        return [RequestResult(connection=self.connection(worker))]

    def dismissals(self, *members, reason=""):
        return [Dismiss(connection=self.connection(w), reason=reason) for w in members]


class AveragingScript(Script):
    """A run of parameter averaging."""

    def __init__(self, workers=3, **settings):
        super().__init__(Coordinator(workers=workers, **settings), workers)

    def report(self, worker, ending, progress, **more):
        return self.reports(worker, ending, progress, **more)

    def groups(self, generation, members, progress, source, order=None):
        """The group of `members`, sent in `order` of arrival if that is not theirs."""
        group = self.group(generation, members, progress, source)
        return [SendGroup(connection=self.connection(w), group=group) for w in order or members]

    def finish(self, *workers):
        """All report the end of the last epoch."""
        end = after(9, workers=self.workers, epoch=2)
        sent = [self.report(worker, "finished", end) for worker in workers]
        return [action for actions in sent for action in actions]


class SharingScript(Script):
    """A run of gradient sharing.

    Each worker has four minibatches of ten examples an epoch; pieces are of two.
    """

    def __init__(self, workers=2, epochs=2, **settings):
        coordinator = SharingCoordinator(
            workers=workers,
            epochs=epochs,
            minibatches=lambda rows: [4] * len(rows),
            piece_size=lambda _: 2,
            **settings,
        )
        super().__init__(coordinator, workers)
        self.pieces = {}  # by worker: the last that it was sent

    def handle(self, event):
        actions = super().handle(event)
        for action in actions:
            if isinstance(action, SendPiece):
                self.pieces[action.connection // 10] = action.piece
        return actions

    def asks(self, worker):
        """It has its state, and wants its first piece."""
        return self.handle(WorkReported(connection=self.connection(worker)))

    def works(self, worker, minibatches=2, *, wants_more=True):
        """It has done so many minibatches of its piece."""
        return self.handle(
            WorkReported(
                connection=self.connection(worker),
                piece=self.pieces.pop(worker),
                minibatches=minibatches,
                examples=10 * minibatches,
                iterations=7,
                wants_more=wants_more,
            )
        )

    def report(self, worker, ending, *, validated=0, **more):
        return self.reports(worker, ending, replace(self.progress, validated=validated), **more)

    def all_meet(self, *workers, validated=0):
        actions = NOTHING
        for worker in workers:
            assert actions == NOTHING
            actions = self.report(worker, "met", validated=validated)
        return actions

    def lose(self, worker):
        self.pieces.pop(worker, None)
        return super().lose(worker)

    def checkpoint(self):
        return self.handle(CheckpointReceived(progress=self.progress))

    def present_group(self, members, source):
        return self.group(self.coordinator.generation, members, self.progress, source)

    def groups(self, members, *, source, to=None, progress=None):
        """The present group of `members`, sent to all or only `to` some.

        Where it leads to a piece at once, `progress` is that before.
        """
        group = replace(self.present_group(members, source), progress=progress or self.progress)
        told = members if to is None else to
        return [SendGroup(connection=self.connection(w), group=group) for w in told]

    def meeting(self, members, *, validate=False, checkpoint=False):
        group = self.present_group(members, source=0)
        return [
            SendMeeting(
                connection=self.connection(w), group=group, validate=validate, checkpoint=checkpoint
            )
            for w in members
        ]

    def piece(self, worker, owner, epoch, start, stop):
        span = Span(owner, epoch, start, stop)
        return [SendPiece(connection=self.connection(worker), piece=span)]


def after(averagings, *, workers=3, epoch=0):
    return Progress(
        epoch=epoch,
        round=averagings,
        averagings=averagings,
        steps=(5 * averagings,) * workers,
        examples=(50 * averagings,) * workers,
        iterations=5 * averagings,
    )
