"""What a run of gradient sharing has done, and what is left of it; pure."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span, next_piece, without


class Ledger:
    """Hands pieces of work out and counts what comes back.

    Every minibatch of the epochs opened so far is in exactly one place: in `progress.todo`, in a
    piece that a worker has, or in `progress.steps`.

    Attributes:
        progress: what has been done, and what is left apart from the pieces handed out.
        start: where the run goes on if all workers are lost.
    """

    def __init__(
        self,
        start: Progress,
        *,
        epochs: int,
        minibatches: Callable[[Sequence[int]], Sequence[int]],
        piece_size: Callable[[Sequence[int]], int],
        lends: bool = True,
    ) -> None:
        """Go on from `start`; see `SharingCoordinator` for the rest."""
        self.progress = self.start = start
        self._epochs, self._minibatches, self._piece_size = epochs, minibatches, piece_size
        self._lends = lends
        self._totals: Sequence[int] = ()
        self._size = 1

    def begin(self, rows: Sequence[int]) -> None:
        """All workers have come; `rows` are the examples of each. Then open the epoch."""
        self._totals = self._minibatches(rows)
        self._size = max(1, self._piece_size(rows))

    def begin_anew(self) -> None:
        """Return to `start`: the state learned since then is lost. Then open the epoch."""
        self.progress = self.start

    def keep(self) -> None:
        """What has been learned until now will not be lost any more."""
        self.start = self.progress

    @property
    def steps_since_start(self) -> int:
        """Minibatches since `start`, of the worker that has trained most."""
        return max(self.progress.steps) - max(self.start.steps)

    # -- epochs and meetings ----------------------------------------------------------------

    @property
    def is_last_epoch_over(self) -> bool:
        """Whether nothing is left but what is owed."""
        return self.progress.epoch >= self._epochs

    @property
    def is_complete(self) -> bool:
        """Whether all work is done, provided that no worker has a piece."""
        return self.is_last_epoch_over and not self.progress.todo

    def open_epoch(self) -> None:
        """Let the present epoch's minibatches be done, if there is one."""
        if not self.is_last_epoch_over:
            self.progress = self.progress.with_epoch_opened(self._totals)

    def close_epoch(self) -> None:
        """What is left of the present epoch is owed from now on."""
        self.progress = self.progress.after_epoch()

    def count_meeting(self) -> None:
        """All have averaged."""
        self.progress = replace(self.progress, averagings=self.progress.averagings + 1)

    def count_validation(self, epoch: int) -> None:
        """The network has been validated after so many epochs."""
        self.progress = replace(self.progress, validated=max(epoch, self.progress.validated))

    def count_answer(self, learning_rate: float | None) -> None:
        """This epoch's callbacks have run and want this learning rate; None: no other."""
        self.progress = self.progress.after_callbacks(learning_rate)

    # -- pieces -----------------------------------------------------------------------------

    def has_work(self, present: Collection[int]) -> bool:
        """Whether anything is left whose data is there, with one of the workers `present`."""
        return any(span.owner in present for span in self.progress.todo)

    def hand_out(
        self, worker: int, *, present: Collection[int], wanted: int = 0, workers: int = 1
    ) -> Span | None:
        """Take the next piece for `worker` out of what is left; None: there is none.

        Only data of workers that are `present` is handed out. A worker that is quick gets as much
        at a time as it wants, but no more than half its share of what is left: towards the end of
        an epoch pieces become small (guided self-scheduling, Polychronopoulos and Kuck, IEEE
        Transactions on Computers 1987).
        """
        progress = self.progress
        size = self._size
        if not self._lends:
            present = {worker}.intersection(present)
        if wanted > size:
            left = sum(span.size for span in progress.todo if span.owner in present)
            size = max(size, min(wanted, left // (2 * workers)))
        piece = next_piece(
            progress.todo,
            worker=worker,
            present=present,
            epoch=progress.epoch,
            size=size,
        )
        if piece is not None:
            todo = without(progress.todo, {worker: piece}, {worker: piece.size})
            self.progress = replace(progress, todo=todo)
        return piece

    def count(
        self,
        worker: int,
        piece: Span,
        *,
        minibatches: int,
        examples: int,
        iterations: int,
        thresholds: tuple[float, ...] = (),
    ) -> None:
        """Count the first `minibatches` of `piece`; the rest of it is left to do."""
        steps, done = list(self.progress.steps), list(self.progress.examples)
        steps[worker] += minibatches
        done[worker] += examples
        self.progress = replace(
            self.progress,
            steps=tuple(steps),
            examples=tuple(done),
            iterations=max(self.progress.iterations, iterations),
            thresholds=thresholds or self.progress.thresholds,
        )
        self.take_back(piece._replace(start=piece.start + minibatches))

    def take_back(self, piece: Span) -> None:
        """Return `piece` to the work left, because its worker gave it back or is lost."""
        if piece.size:
            todo = self.progress.todo
            # The pieces of a worker stay in order if no other worker can do them.
            todo = (*todo, piece) if self._lends else (piece, *todo)
            self.progress = replace(self.progress, todo=todo)
