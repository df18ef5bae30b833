"""What coordinator and workers tell each other about a run; pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from sparkwright.mesh.topology import Seat

from .work import Span, epoch_spans, without

Ending = Literal["finished", "stopped", "met", "broken", "waiting", "failed"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What has been averaged, and so counts; work after it is done again if it is lost.

    Attributes:
        epoch: complete epochs; what they owe may still be in `todo`.
        round: averagings within the current epoch.
        averagings: averagings since the run began.
        opened: epochs whose minibatches have been put into `todo`.
        todo: what is left of the epochs opened so far.
        steps: minibatches that each worker has trained and that count.
        examples: the examples in them.
        iterations: the optimizer's iterations, the most of any worker.
        validated: epochs after which the validation loss has been computed.
        judged: with early stopping by averaging: epochs after which it was decided to go on.
        answered: with callbacks: the complete epochs when they ran last.
        answered_round: likewise the round; 0: they ran between epochs.
        learning_rate: what callbacks have set; None: the compiled one.
        thresholds: of gradient sharing, the last that a worker told; none: not adapted yet.
    """

    epoch: int = 0
    round: int = 0
    averagings: int = 0
    opened: int = 0
    todo: tuple[Span, ...] = ()
    steps: tuple[int, ...] = ()
    examples: tuple[int, ...] = ()
    iterations: int = 0
    validated: int = 0
    judged: int = 0
    answered: int = 0
    answered_round: int = 0
    learning_rate: float | None = None
    thresholds: tuple[float, ...] = ()

    @property
    def order(self) -> tuple[int, ...]:
        """Compares two progresses: more is later."""
        answered = self.answered, self.answered_round
        return self.averagings, self.epoch, self.validated, self.judged, *answered

    @property
    def complete_epochs(self) -> int:
        """Those whose last averaging counts, also if the run ended with it."""
        return self.epoch + int(self.opened > self.epoch and not self.todo)

    def with_epoch_opened(self, totals: Sequence[int]) -> Self:
        """With the current epoch's minibatches, `totals[w]` of each worker, to be done."""
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
        """Where a run of so many workers begins; epochs before `epoch` count as done."""
        nothing = (0,) * workers
        return cls(
            steps=nothing,
            examples=nothing,
            iterations=iterations,
            thresholds=tuple(thresholds),
            **dict.fromkeys(("epoch", "opened", "validated", "judged", "answered"), epoch),
        )

    def after_round(
        self,
        shares: Mapping[int, Span],
        done: Mapping[int, tuple[int, int]],
        *,
        iterations: int,
    ) -> Self:
        """After an averaging.

        Args:
            shares: what each worker was to do.
            done: worker -> (minibatches, examples) that it did, from its share's beginning.
            iterations: the optimizer's, the most of any worker.
        """
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
        """Whether the callbacks of this moment have run."""
        return (self.answered, self.answered_round) >= (self.epoch, self.round)

    def awaits_callbacks(self, frequency: int) -> bool:
        """Whether callbacks are due that have not run.

        They are due after each epoch and, unless `frequency` is 0, after so many averagings of an
        epoch if more of it is to follow.
        """
        is_due = self.epoch > 0 and not self.round  # after the last epoch rounds may be owed
        if self.opened > self.epoch:
            is_due = 0 < frequency <= self.round and not self.round % frequency and self.todo != ()
        return is_due and not self.is_answered

    def after_callbacks(self, learning_rate: float | None) -> Self:
        """After the callbacks of this moment, which want this learning rate; None: no other."""
        rate = self.learning_rate if learning_rate is None else learning_rate
        return replace(self, answered=self.epoch, answered_round=self.round, learning_rate=rate)

    def after_epoch(self) -> Self:
        """After an epoch's last averaging."""
        return replace(self, epoch=self.epoch + 1, round=0)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
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
    """Who averages with whom from now on, and from where.

    Attributes:
        generation: counts the groups of a run, from 1.
        seats: the members; a member's rank is its place here.
        rows: examples of every worker, absent ones too.
        validation_rows: validation examples of every worker.
        progress: where training goes on.
        source: the rank whose vector everybody starts from; -1: the driver's.
        required: how many workers hold data; the others, with higher numbers, join and leave.
            None: all.
    """

    generation: int
    seats: tuple[Seat, ...]
    rows: tuple[int, ...]
    validation_rows: tuple[int, ...]
    progress: Progress
    source: int
    required: int | None = None

    @property
    def owners(self) -> int:
        """How many workers hold data, absent ones too."""
        return len(self.rows) if self.required is None else self.required

    @property
    def has_joined(self) -> bool:
        """Whether there is a member without data of its own, which trains that of others."""
        return any(seat.worker >= self.owners for seat in self.seats)

    @property
    def is_complete(self) -> bool:
        """Whether all that hold data are members."""
        return {seat.worker for seat in self.seats}.issuperset(range(self.owners))

    def rank_of(self, worker: int) -> int:
        """The rank of `worker`, which must be a member."""
        return [seat.worker for seat in self.seats].index(worker)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {
            "generation": self.generation,
            "seats": [[s.worker, s.host, s.port, s.attempt] for s in self.seats],
            "rows": self.rows,
            "validation_rows": self.validation_rows,
            "progress": self.progress.to_dict(),
            "source": self.source,
            "required": self.required,
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
            required=fields["required"],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """Why a worker could not go on, ready to travel.

    Attributes:
        worker: its number.
        host: its machine.
        kind: "non_finite" for NaN or infinite values, "data" for data that does not fit,
            "configuration" for an invalid option, "network" for an unreachable peer, "lost" for a
            broken connection to the driver, "error" for everything else.
        reason: one sentence.
        traceback: the worker's own traceback.
    """

    worker: int
    host: str = ""
    kind: str = "error"
    reason: str = ""
    traceback: str = field(default="", repr=False)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}
