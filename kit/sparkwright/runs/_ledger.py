"""Assigned, completed and remaining work of a run of gradient sharing."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span, next_piece, without


class Ledger:
    """Assigns pieces of work and counts the completed minibatches."""

    # Every minibatch of the epochs opened so far is in exactly one place: in `progress.todo`, in an
    # assigned piece, or in `progress.steps`.

    def __init__(
        self,
        start: Progress,
        *,
        epochs: int,
        minibatches: Callable[[Sequence[int]], Sequence[int]],
        piece_size: Callable[[Sequence[int]], int],
        lends: bool = True,
    ) -> None:
        """Continue from `start`; see `SharingCoordinator` for the other arguments."""
        # `progress.todo` is without the assigned pieces; from `start` the run continues if all
        # workers are lost.
        self.progress = self.start = start
        self._epochs, self._minibatches, self._piece_size = epochs, minibatches, piece_size
        self._lends = lends
        self._totals: Sequence[int] = ()
        self._size = 1
        self.assigned: dict[int, Span] = {}  # by worker
        # Pieces of lost workers, whose minibatches may have ended the processes.
        self._risky: list[Span] = []

    def begin(self, rows: Sequence[int]) -> None:
        """Set the number of examples of each worker, before the first `open_epoch`."""
        self._totals = self._minibatches(rows)
        self._size = max(1, self._piece_size(rows))

    def restart(self) -> None:
        """Return to `start`, because the later state is lost; `open_epoch` follows."""
        self.progress = self.start

    def keep(self) -> None:
        """Set `start` to the current progress, whose state the driver has."""
        self.start = self.progress

    @property
    def steps_since_start(self) -> int:
        """Minibatches since `start` of the worker that has trained most."""
        return max(self.progress.steps) - max(self.start.steps)

    # -- epochs and meetings ----------------------------------------------------------------

    @property
    def is_last_epoch_over(self) -> bool:
        """Whether all epochs are closed; minibatches of lost workers may remain."""
        return self.progress.epoch >= self._epochs

    @property
    def is_complete(self) -> bool:
        """Whether all work is completed, provided that no piece is assigned."""
        return self.is_last_epoch_over and not self.progress.todo

    def open_epoch(self) -> None:
        """Add the minibatches of the current epoch to the remaining work, unless all are over."""
        if not self.is_last_epoch_over:
            self.progress = self.progress.with_epoch_opened(self._totals)

    # -- pieces -----------------------------------------------------------------------------

    def _is_risky(self, piece: Span) -> bool:
        """Whether a worker was lost that had minibatches of `piece`."""
        return any(piece.overlaps(risky) for risky in self._risky)

    def may_risk(self, workers: Collection[int]) -> bool:
        """Whether a risky piece that one of `workers` gets now cannot end them all."""
        pieces = [self.assigned.get(worker) for worker in workers]
        return sum(piece is None or not self._is_risky(piece) for piece in pieces) > 1

    def has_work(self, present: Collection[int], *, risky: bool = True) -> bool:
        """Whether work remains on data of the workers `present`, or only risky pieces of it."""
        return any(span.owner in present for span in self._left(risky=risky))

    def _left(self, *, risky: bool) -> tuple[Span, ...]:
        return tuple(span for span in self.progress.todo if risky or not self._is_risky(span))

    def hand_out(
        self,
        worker: int,
        *,
        present: Collection[int],  # workers whose data is available
        wanted: int = 0,  # minibatches; 0: the size of a piece
        workers: int = 1,  # that share the remaining work
        risky: bool = True,  # whether it may be a risky piece
    ) -> Span | None:
        """Assign the next piece of the remaining work to `worker`; return None if there is none."""
        # A fast worker gets the minibatches that it requests, but at most half its share of the
        # remaining work, so pieces become small towards the end of an epoch (guided
        # self-scheduling, Polychronopoulos and Kuck, IEEE Transactions on Computers 1987).
        progress, left = self.progress, self._left(risky=risky)
        size = self._size
        if not self._lends:
            present = {worker}.intersection(present)
        if wanted > size:
            minibatches = sum(span.size for span in left if span.owner in present)
            size = max(size, min(wanted, minibatches // (2 * workers)))
        piece = next_piece(
            left,
            worker=worker,
            present=present,
            epoch=progress.epoch,
            size=size,
        )
        if piece is not None:
            self.assigned[worker] = piece
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
        """Count the first `minibatches` of `piece`, and return the others to the remaining work."""
        self.assigned.pop(worker, None)
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
        self._return(piece._replace(start=piece.start + minibatches))

    def lose(self, worker: int) -> None:
        """Return the piece of a lost worker to the remaining work."""
        if (piece := self.assigned.pop(worker, None)) is not None:
            self._risky.append(piece)
            self._return(piece)

    def _return(self, piece: Span) -> None:
        if piece.size:
            todo = self.progress.todo
            # If no other worker can train it, keep the pieces of its worker in order.
            todo = (*todo, piece) if self._lends else (piece, *todo)
            self.progress = replace(self.progress, todo=todo)
