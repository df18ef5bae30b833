"""Messages between coordinator and workers; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from sparkwright.mesh.topology import Seat

from .work import Span, epoch_spans, without

Ending = Literal["finished", "stopped", "met", "broken", "waiting", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """Progress of a run at its last averaging; later work is repeated if it is lost."""

    epoch: int = 0  # complete ones; minibatches that lost workers left may still be in `todo`
    round: int = 0  # averagings within the current epoch
    averagings: int = 0  # since the run began
    opened: int = 0  # epochs whose minibatches have been added to `todo`
    todo: tuple[Span, ...] = ()  # remaining minibatches of the opened epochs
    steps: tuple[int, ...] = ()  # of each worker, included in the average
    examples: tuple[int, ...] = ()  # likewise
    iterations: int = 0  # of the optimizer, the maximum over workers
    validated: int = 0  # epochs whose validation loss has been computed
    answered: int = 0  # complete epochs when callbacks last ran
    answered_round: int = 0  # round when callbacks last ran; 0: between epochs
    learning_rate: float | None = None  # set by callbacks; None: the compiled one
    # Of gradient sharing, the last ones of a worker; empty before adapting.
    thresholds: tuple[float, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Sort key: a greater value is later progress."""
        answered = self.answered, self.answered_round
        return self.averagings, self.epoch, self.validated, *answered

    @property
    def complete_epochs(self) -> int:
        """Number of fully averaged epochs, including one that the run ended with."""
        return self.epoch + int(self.opened > self.epoch and not self.todo)

    def with_epoch_opened(self, totals: Sequence[int]) -> Self:
        """Add the current epoch's minibatches, `totals[w]` of each worker w, to `todo`."""
        if self.opened > self.epoch:
            return self
        todo = (*self.todo, *epoch_spans(totals, self.epoch))
        return replace(self, opened=self.epoch + 1, todo=todo)

    @classmethod
    def first(
        cls,
        *,
        workers: int,
        iterations: int = 0,
        epoch: int = 0,
        thresholds: Sequence[float] = (),
    ) -> Self:
        """Return the initial progress of a run; epochs before `epoch` count as complete."""
        nothing = (0,) * workers
        return cls(
            steps=nothing,
            examples=nothing,
            iterations=iterations,
            thresholds=tuple(thresholds),
            **dict.fromkeys(("epoch", "opened", "validated", "answered"), epoch),
        )

    def after_round(
        self,
        shares: Mapping[int, Span],
        done: Mapping[int, tuple[int, int]],  # worker -> (minibatches, examples) of its share
        *,
        iterations: int,
    ) -> Self:
        """Return the progress after an averaging; `iterations` is the maximum over workers."""
        counts = {worker: minibatches for worker, (minibatches, _) in done.items()}
        return replace(
            self,
            round=self.round + 1,
            averagings=self.averagings + 1,
            todo=without(self.todo, shares, counts),
            steps=tuple(n + counts.get(w, 0) for w, n in enumerate(self.steps)),
            examples=tuple(n + done.get(w, (0, 0))[1] for w, n in enumerate(self.examples)),
            iterations=max(iterations, self.iterations),
        )

    @property
    def is_answered(self) -> bool:
        """Whether the callbacks due at this progress have run."""
        return (self.answered, self.answered_round) >= (self.epoch, self.round)

    def awaits_callbacks(self, frequency: int) -> bool:
        """Whether callbacks are due and have not run.

        They are due after each epoch. Unless `frequency` is 0, they are also due after every
        `frequency` averagings within an epoch, except after its last.
        """
        is_due = self.epoch > 0 and not self.round  # the last epoch may leave rounds to make up
        if self.opened > self.epoch:
            is_due = 0 < frequency <= self.round and not self.round % frequency and self.todo != ()
        return is_due and not self.is_answered

    def after_callbacks(self, learning_rate: float | None) -> Self:
        """Return the progress after callbacks ran; None keeps the learning rate."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        return replace(self, answered=self.epoch, answered_round=self.round, learning_rate=rate)

    def after_epoch(self) -> Self:
        """Return the progress after an epoch's last averaging."""
        return replace(self, epoch=self.epoch + 1, round=0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        settings: dict[str, Any] = {
            **fields,
            "todo": tuple(Span(*map(int, span)) for span in fields["todo"]),
            "steps": tuple(map(int, fields["steps"])),
            "examples": tuple(map(int, fields["examples"])),
            "thresholds": tuple(map(float, fields.get("thresholds", ()))),
        }
        return cls(**settings)


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A group of workers that average with one another, and its starting point."""

    generation: int  # number of the group in the run, from 1
    seats: tuple[Seat, ...]  # by rank
    rows: tuple[int, ...]  # of every worker, including absent ones
    validation_rows: tuple[int, ...]  # likewise
    progress: Progress  # where training continues
    source: int  # rank that broadcasts the starting vector; -1: the driver
    owners: int  # workers that hold data, including absent ones; later ones join and leave

    @property
    def has_joined(self) -> bool:
        """Whether any member holds no data and trains on other workers' data."""
        return any(seat.worker >= self.owners for seat in self.seats)

    @property
    def is_complete(self) -> bool:
        """Whether all workers that hold data are members."""
        return {seat.worker for seat in self.seats}.issuperset(range(self.owners))

    def rank_of(self, worker: int) -> int:
        """Return the rank of `worker`, which must be a member."""
        return [seat.worker for seat in self.seats].index(worker)

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable fields."""
        return {
            "generation": self.generation,
            "seats": [[s.worker, s.host, s.port, s.attempt] for s in self.seats],
            "rows": self.rows,
            "validation_rows": self.validation_rows,
            "progress": self.progress.to_dict(),
            "source": self.source,
            "owners": self.owners,
        }

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `to_dict`."""
        return cls(
            generation=fields["generation"],
            seats=tuple(
                Seat(worker=w, host=h, port=p, attempt=a) for w, h, p, a in fields["seats"]
            ),
            rows=tuple(fields["rows"]),
            validation_rows=tuple(fields["validation_rows"]),
            progress=Progress.from_dict(fields["progress"]),
            source=fields["source"],
            owners=fields["owners"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A worker's failure, as sent to the driver."""

    worker: int
    host: str = ""
    # non_finite, data, configuration, network, lost (no driver), session (ended) or error.
    kind: str = "error"
    reason: str = ""  # one sentence
    traceback: str = field(default="", repr=False)
    # `Span` in training when the process ended; None: none
    at: tuple[int, int, int, int] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON-serializable fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
