"""What follows when workers tell a score, whoever leads the run; pure."""

from ._decisions import Action, BestReceived, EpochScored, KeepBest, SendVerdict
from ._early_stopping import Judge


def judged(judge: Judge | None, event: EpochScored | BestReceived) -> list[Action]:
    """The verdict on an epoch, for the worker that asks; nothing without a `judge`."""
    if judge is None:
        return []
    if isinstance(event, BestReceived):
        if event.epoch != judge.result.best_epoch:
            return []  # of a worker that has been lost since
        judge.kept_epoch = event.epoch
        return [KeepBest(connection=event.connection, epoch=event.epoch)]
    verdict = judge.judge(event.epoch, loss=event.loss, metrics=event.metrics)
    return [
        SendVerdict(
            connection=event.connection,
            verdict=verdict,
            ends=judge.stops_after(event.epoch),
            keep=judge.wants_state(event.epoch),
        )
    ]
