"""What all workers of gradient sharing agree on, beside the replica that runs ahead of it."""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparkwright.updates import (
    BITMAP_SPARSITY,
    Encoded,
    ResidualClipping,
    ResidualStatistics,
    ThresholdAlgorithm,
    ThresholdState,
    apply,
    choose_threshold,
    describe,
    encode_difference,
    expected_sparsity,
    residual_sample,
    residual_statistics,
    selected_values,
)

from ._flat import SparseSubtraction
from ._replica_base import Replica

# With more than this share of all parameters changed, one dense subtraction is faster.
_DENSE = 1 / 64
# A message of so few words costs as much as an empty one.
_SMALL_WORDS = 1024
# Thresholds that were chosen are chosen again after so many empty messages in a row, or after a
# message of so many times the wanted size that is also long in itself.
_MOST_EMPTY, _MOST_TIMES, _LONG_WORDS = 4, 2, 1 << 16


class SharedParameters:
    """A vector that is start minus everything anybody has sent, the same on all workers.

    The replica's own variables differ from it by the residual: what this worker has learned and not
    yet sent. So a worker goes on from where it is, as on one machine, and nothing has to be written
    back after a message but what others sent.

    Attributes:
        vector: (N,) the shared parameters, in the order of the trainable variables.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        algorithm: ThresholdAlgorithm,
        clipping: ResidualClipping | None,
        per_variable: bool,
        in_place: bool = True,
    ) -> None:
        """Begin with zeros; `reset` gives them values.

        Args:
            replica: whose trainable variables these are.
            algorithm: chooses thresholds.
            clipping: bounds the residual; None: does not.
            per_variable: one threshold for each variable instead of one for all.
            in_place: whether nothing else can hold the variables' memory; default True.
        """
        self._replica, self._algorithm, self._clipping = replica, algorithm, clipping
        self._in_place = in_place
        state = replica.state
        self.vector = np.zeros(state.trainable_size, state.dtype)
        segments = state.trainable if per_variable else 1
        first = algorithm.init()
        self._states: list[ThresholdState] = [first] * segments
        self._chooses, self._empty, self._has_sent = first.to_choose > 0, 0, False
        self._choose_again = False
        self._subtract_at = SparseSubtraction(state.averaged[: state.trainable])
        self._delta: NDArray[Any] = np.empty(0, state.dtype)

    @property
    def thresholds(self) -> list[float]:
        """What the next message is encoded with."""
        return [state.threshold for state in self._states]

    @property
    def adapted(self) -> list[float]:
        """`thresholds` once this worker has sent some and they need not be chosen; else none."""
        ready = self._has_sent and not any(state.to_choose for state in self._states)
        return self.thresholds if ready else []

    def continue_from(self, thresholds: Sequence[float]) -> None:
        """Take over thresholds that have adapted already, unless there is another number."""
        if len(thresholds) == len(self._states):
            self._states = [
                state._replace(threshold=threshold, to_choose=0)
                for state, threshold in zip(self._states, thresholds, strict=True)
            ]

    def reset(self, values: NDArray[Any]) -> None:
        """Take over `values`, (N,), as the shared parameters; the caller writes the replica's."""
        np.copyto(self.vector, values)

    def residual(self) -> NDArray[Any]:
        """(N,) a copy of what this worker has not sent."""
        return self.vector - np.concatenate(self._replica.state.trainable_views())

    def encode(self, *, step: int) -> Encoded:
        """The message for what has been learned since the last one; step `step` from 0."""
        views = self._replica.state.trainable_views()
        if any(state.to_choose for state in self._states) or self._choose_again:
            self._choose(views)
        thresholds = self.thresholds
        one = thresholds[0] if len(thresholds) == 1 else thresholds
        encoded = encode_difference(self.vector, views, one)
        excess = None
        if self._clipping is not None and self._clipping.due(step):
            excess = self._clipping.excess(self.vector, views, one)
        del views
        if excess is not None and excess[0].size:
            # local += excess, as a subtraction
            self._subtract_at(excess[0], -excess[1], self._windows())
        self._has_sent = True
        self._empty = 0 if encoded.selected else self._empty + 1
        wanted = expected_sparsity(self._algorithm) * self.vector.size
        is_long = encoded.words.size > max(_LONG_WORDS, _MOST_TIMES * wanted)
        self._choose_again = self._chooses and (is_long or self._empty >= _MOST_EMPTY)
        # Nothing is gained if a small message becomes smaller.
        is_small = encoded.words.size <= _SMALL_WORDS
        most = expected_sparsity(self._algorithm) if is_small else 1.0
        self._states = [
            self._algorithm.update(state, sparsity=min(most, segment.sparsity))
            for state, segment in zip(self._states, encoded.segments, strict=True)
        ]
        return encoded

    def _choose(self, views: Sequence[NDArray[Any]]) -> None:
        """Choose thresholds from the residual."""
        bounds = [0, self.vector.size]
        if len(self._states) > 1:
            bounds = list(accumulate((view.size for view in views), initial=0))
        wanted = expected_sparsity(self._algorithm)
        wanted = max(wanted, _SMALL_WORDS / max(1, self.vector.size))
        # A bitmap carries every element.
        share = 1.0 if wanted >= BITMAP_SPARSITY else wanted
        for number, (start, stop) in enumerate(pairwise(bounds)):
            parts = views if len(self._states) == 1 else [views[number]]
            sample = residual_sample(self.vector[start:stop], parts)
            threshold = choose_threshold(sample, share=share)
            if threshold is not None:
                self._states[number] = self._states[number]._replace(threshold=threshold)

    def statistics(self, *, exact: bool) -> ResidualStatistics:
        """How the residual is distributed now, against the (first) threshold."""
        views = self._replica.state.trainable_views()
        return residual_statistics(self.vector, views, self.thresholds[0], exact=exact)

    def _windows(self) -> list[NDArray[Any]] | None:
        return self._replica.state.trainable_windows() if self._in_place else None

    def absorb(self, messages: Sequence[NDArray[np.int32]]) -> None:
        """Take over what others sent.

        Raises:
            NetworkError: if one of the messages is none; then nothing of it is taken over.
        """
        if not messages:
            return
        windows = self._windows()
        if windows is not None:
            for words in messages:
                apply(words, self.vector, windows)
            return
        size = self.vector.size
        selected = sum(s.selected for words in messages for s in describe(words, size))
        if selected > _DENSE * size:
            if not self._delta.size:
                self._delta = np.empty_like(self.vector)
            self._delta[:] = 0
            for words in messages:
                apply(words, self._delta, self.vector)
            # `apply` subtracts: the delta is minus what was sent
            np.negative(self._delta, out=self._delta)
            self._replica.state.subtract(self._delta)
            return
        found = [selected_values(words, size) for words in messages]
        for words in messages:
            apply(words, self.vector)
        indices = np.concatenate([indices for indices, _ in found])
        if indices.size:
            self._subtract_at(indices, np.concatenate([values for _, values in found]))
