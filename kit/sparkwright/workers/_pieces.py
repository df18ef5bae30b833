"""The piece of work that a worker trains, with gradient sharing."""

import math
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.cost import PIECE_S, gathered
from sparkwright.workers.work import Span

from ._minibatches import Block, Minibatches
from .requests import WorkerSettings

_THREAD = "sparkwright-prefetch"
Ahead = deque[tuple[Span, Future[list[Block]]]]  # minibatches that are being gathered
# Weight of the latest message's cost in the mean of all.
_LATEST = 0.2


class Piece:
    """One piece: its progress and prefetched minibatches."""

    def __init__(self, span: Span) -> None:
        self.span = span
        self.done = self.examples = self.asked = 0
        self.ahead = Ahead()

    @property
    def is_done(self) -> bool:
        """Whether all of its minibatches are trained."""
        return self.done == self.span.size


class Pieces:
    """The current piece, in messages of some minibatches that suit the measured speed."""

    def __init__(
        self, settings: WorkerSettings[SharedTrainingMaster], minibatches: Minibatches
    ) -> None:
        self._master, self._minibatches = settings.master, minibatches
        self.current: Piece | None = None
        self._per_message = settings.master.minibatches_per_message or 1
        self._wanted = 0  # minibatches of the next piece; 0: the coordinator decides
        self._message_s = math.nan  # mean cost of a message, including received ones
        self._gatherer = ThreadPoolExecutor(1, thread_name_prefix=_THREAD)

    def close(self) -> None:
        """Stop prefetching."""
        self._gatherer.shutdown(wait=True, cancel_futures=True)

    def begin(self, span: Span) -> None:
        """Start a piece; the coordinator sends it only after the previous one was reported."""
        self.current = Piece(span)

    def end(self) -> None:
        """Leave the current piece, if any."""
        if self.current is not None:
            for _, waiting in self.current.ahead:
                waiting.cancel()
        self.current = None

    def report(self) -> dict[str, Any]:
        """Return what the coordinator is to know of the current piece, and the next one's size."""
        piece = self.current
        return {
            "piece": None if piece is None else piece.span,
            "minibatches": 0 if piece is None else piece.done,
            "examples": 0 if piece is None else piece.examples,
            "wanted": self._wanted,
        }

    def fetch(self, piece: Piece) -> tuple[int, list[Block]]:
        """Return the number and data of the next message's minibatches; prefetch what follows."""
        while piece.asked < piece.span.size and (
            not piece.ahead
            or piece.asked - piece.done < self._per_message + self._master.prefetch_batches
        ):
            start = piece.span.start + piece.asked
            size = min(self._per_message, piece.span.size - piece.asked)
            part = piece.span._replace(start=start, stop=start + size)
            piece.ahead.append((part, self._gatherer.submit(self._minibatches.gather, part)))
            piece.asked += size
        part, blocks = piece.ahead.popleft()
        return part.size, blocks.result()

    def adapt(self, step_s: float, message_s: float) -> None:
        """Suit messages and pieces to the seconds of a minibatch and of a message."""
        before_s = message_s if math.isnan(self._message_s) else self._message_s
        self._message_s = before_s + _LATEST * (message_s - before_s)
        master = self._master
        if master.minibatches_per_message is None:
            self._per_message = gathered(step_s, self._message_s, master.max_staleness)
        if master.piece_minibatches is None:
            self._wanted = max(self._per_message, int(PIECE_S / step_s))
