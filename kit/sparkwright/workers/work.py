"""Remaining minibatches and their assignment to workers; pure.

An epoch is a list of spans of minibatches, one for each worker's shard. A worker takes minibatches
from the head of its own span. Idle workers help from the tail, so that the rest usually stays one
span. Minibatches of a lost worker stay pending; all workers train them once its data is back.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple


class Span(NamedTuple):
    """Minibatches `start` to `stop` (exclusive) of worker `owner`'s shard in the given epoch."""

    owner: int
    epoch: int
    start: int
    stop: int

    @property
    def size(self) -> int:
        """Number of minibatches."""
        return self.stop - self.start

    def overlaps(self, other: "Span") -> bool:
        """Whether a minibatch is in both."""
        same = self[:2] == other[:2]
        return same and self.start < other.stop and other.start < self.stop


def epoch_spans(totals: Sequence[int], epoch: int) -> tuple[Span, ...]:
    """Return the spans of an epoch: `totals[w]` minibatches of each worker w's shard."""
    return tuple(Span(w, epoch, 0, total) for w, total in enumerate(totals) if total)


def share_out(
    todo: Sequence[Span],
    *,
    epoch: int,
    quotas: Mapping[int, int],  # present worker -> maximum number of minibatches
    lend: bool,  # idle workers train other workers' data of the current epoch
) -> dict[int, Span]:
    """Assign spans to workers for the next round.

    Pending spans of epochs before `epoch` come first and are shared by all workers. Then each
    worker trains its own data. With `lend`, idle workers train the tail of the longest span.
    Deterministic, so that all workers compute the same assignment.

    Example:
        >>> todo = [Span(0, 0, 5, 6), Span(1, 0, 0, 12)]
        >>> share_out(todo, epoch=0, quotas={0: 5, 1: 2}, lend=False)
        {0: Span(owner=0, epoch=0, start=5, stop=6), 1: Span(owner=1, epoch=0, start=0, stop=2)}
        >>> share_out(todo[1:], epoch=0, quotas={0: 5, 1: 2}, lend=True)[0]
        Span(owner=1, epoch=0, start=7, stop=12)
    """
    present = [span for span in todo if span.owner in quotas]
    owed = [span for span in present if span.epoch < epoch]
    left = owed or present
    shares: dict[int, Span] = {}
    for worker, quota in sorted(quotas.items()):
        for place, span in enumerate(left):
            if span.owner == worker and span.size:
                shares[worker] = span._replace(stop=min(span.stop, span.start + quota))
                left[place] = span._replace(start=shares[worker].stop)
                break
    if not (owed or lend):
        return shares
    for worker, quota in sorted(quotas.items()):
        if worker in shares or not left:
            continue
        place = max(range(len(left)), key=lambda i: (left[i].size, -i))
        span = left[place]
        if span.size:
            shares[worker] = span._replace(start=max(span.start, span.stop - quota))
            left[place] = span._replace(stop=shares[worker].start)
    return shares


def without(
    todo: Iterable[Span], shares: Mapping[int, Span], done: Mapping[int, int]
) -> tuple[Span, ...]:
    """Remove from `todo` the first `done[w]` minibatches of each worker w's share.

    A worker trains its own data from the start of its share, other workers' data from the end. An
    interrupted share may split a span.
    """
    left = list(todo)
    for worker, share in shares.items():
        count = done.get(worker, 0)
        start = share.start if worker == share.owner else share.stop - count
        hole = share._replace(start=start, stop=start + count)
        cut = (_cut(span, hole) if span.owner == hole.owner else [span] for span in left)
        left = [piece for pieces in cut for piece in pieces]
    return tuple(left)


def _cut(span: Span, hole: Span) -> list[Span]:
    """Return the parts of `span` outside `hole`."""
    if not span.overlaps(hole):
        return [span]
    pieces = [
        span._replace(stop=max(span.start, hole.start)),
        span._replace(start=min(span.stop, hole.stop)),
    ]
    return [piece for piece in pieces if piece.size]


def quotas_by_speed(
    seconds: Mapping[int, float], *, members: Collection[int], frequency: int
) -> dict[int, int]:
    """Return the minibatches per worker such that all need the same time; speed 0 is unknown.

    Example:
        >>> quotas_by_speed({0: 0.1, 1: 0.25}, members=[0, 1, 2], frequency=5)
        {0: 5, 1: 2, 2: 5}
    """
    known = {w: s for w, s in seconds.items() if s > 0 and w in members}
    fastest = min(known.values(), default=0.0)
    return {
        worker: max(1, round(frequency * fastest / known[worker])) if worker in known else frequency
        for worker in members
    }


def next_piece(
    todo: Sequence[Span], *, worker: int, present: Collection[int], epoch: int, size: int
) -> Span | None:
    """Return the next span of at most `size` minibatches for `worker`; None if nothing is left.

    Pending spans of epochs before `epoch` come first. A worker prefers its own data; otherwise it
    takes the tail of the longest span. Data of absent workers is skipped.

    Example:
        >>> todo = [Span(0, 0, 5, 6), Span(1, 0, 0, 12)]
        >>> next_piece(todo, worker=0, present={0, 1}, epoch=0, size=4)
        Span(owner=0, epoch=0, start=5, stop=6)
        >>> next_piece(todo, worker=2, present={1, 2}, epoch=0, size=4)
        Span(owner=1, epoch=0, start=8, stop=12)
    """
    left = [span for span in todo if span.owner in present]
    left = [span for span in left if span.epoch < epoch] or left
    for span in left:
        if span.owner == worker:
            return span._replace(stop=min(span.stop, span.start + size))
    if not left:
        return None
    longest = max(left, key=lambda span: (span.size, -span.owner))
    return longest._replace(start=max(longest.start, longest.stop - size))
