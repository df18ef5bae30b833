"""The shared parameters of gradient sharing, equal on all workers."""

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
    encode_difference,
    expected_sparsity,
    residual_sample,
    residual_statistics,
    selected_values,
)

from ._flat import SparseSubtraction
from ._replica_base import Replica

# If a larger share of all parameters changes, one dense subtraction is faster.
_DENSE = 1 / 64
# Messages with at most this many words cost as much as an empty message.
_SMALL_WORDS = 1024
# Thresholds are chosen again after this many consecutive empty messages, or after a message that
# has more than `_LONG_WORDS` words and exceeds the target size by this factor.
_MOST_EMPTY, _MOST_TIMES, _LONG_WORDS = 4, 2, 1 << 16


class SharedParameters:
    """A vector equal on all workers: the initial values minus all messages."""

    # The replica's variables differ from it by the residual: updates that this worker has not sent
    # yet. The worker continues from its own variables; only messages of others change them.

    def __init__(
        self,
        replica: Replica,
        *,
        algorithm: ThresholdAlgorithm,
        clipping: ResidualClipping | None,
        per_variable: bool,  # one threshold for each
        in_place: bool = True,  # the variables' memory has no other users
    ) -> None:
        """Create shared parameters of zeros; `reset` sets their values."""
        self._replica, self._algorithm, self._clipping = replica, algorithm, clipping
        self._in_place = in_place
        state = replica.state
        self.vector = np.zeros(state.trainable_size, state.dtype)  # of the trainable variables
        segments = state.trainable if per_variable else 1
        first = algorithm.init()
        self._states: list[ThresholdState] = [first] * segments
        self._chooses, self._empty, self._has_sent = first.to_choose > 0, 0, False
        self._choose_again = False
        self._subtract_at = SparseSubtraction(state.averaged[: state.trainable])
        self._delta: NDArray[Any] = np.empty(0, state.dtype)

    @property
    def thresholds(self) -> list[float]:
        return [state.threshold for state in self._states]

    @property
    def adapted(self) -> list[float]:
        """`thresholds` after the first messages, once they have adapted; before that, none."""
        ready = self._has_sent and not any(state.to_choose for state in self._states)
        return self.thresholds if ready else []

    def continue_from(self, thresholds: Sequence[float]) -> None:
        """Use already adapted `thresholds`, unless their number differs."""
        if len(thresholds) == len(self._states):
            self._states = [
                state._replace(threshold=threshold, to_choose=0)
                for state, threshold in zip(self._states, thresholds, strict=True)
            ]

    def reset(self, values: NDArray[Any]) -> None:
        """Set the shared parameters to `values`, (N,); the caller sets the replica's."""
        np.copyto(self.vector, values)

    def residual(self) -> NDArray[Any]:
        """Return an (N,) copy of this worker's residual."""
        return self.vector - np.concatenate(self._replica.state.trainable_views())

    def encode(self, *, step: int) -> Encoded:
        """Encode the updates since the last message, as message `step` (from 0)."""
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
            # local += excess
            self._subtract_at(excess[0], -excess[1], self._windows())
        self._has_sent = True
        self._empty = 0 if encoded.selected else self._empty + 1
        wanted = expected_sparsity(self._algorithm) * self.vector.size
        is_long = encoded.words.size > max(_LONG_WORDS, _MOST_TIMES * wanted)
        self._choose_again = self._chooses and (is_long or self._empty >= _MOST_EMPTY)
        # Making a small message smaller has no benefit.
        is_small = encoded.words.size <= _SMALL_WORDS
        most = expected_sparsity(self._algorithm) if is_small else 1.0
        self._states = [
            self._algorithm.update(state, sparsity=min(most, segment.sparsity))
            for state, segment in zip(self._states, encoded.segments, strict=True)
        ]
        return encoded

    def _choose(self, views: Sequence[NDArray[Any]]) -> None:
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
        """Return statistics of the current residual, for the (first) threshold."""
        views = self._replica.state.trainable_views()
        return residual_statistics(self.vector, views, self.thresholds[0], exact=exact)

    def _windows(self) -> list[NDArray[Any]] | None:
        return self._replica.state.trainable_windows() if self._in_place else None

    def absorb(self, messages: Sequence[NDArray[np.int32]]) -> None:
        """Apply messages of other workers."""
        if not messages:
            return
        windows = self._windows()
        if windows is not None:
            for words in messages:
                apply(words, self.vector, windows)
            return
        size = self.vector.size
        # A sparse message has a word for each element, a bitmap more words than `_DENSE * size`.
        if sum(words.size for words in messages) > _DENSE * size:
            if not self._delta.size:
                self._delta = np.empty_like(self.vector)
            self._delta[:] = 0
            for words in messages:
                apply(words, self._delta, self.vector)
            # `apply` subtracts, so the delta is the negative of the messages
            np.negative(self._delta, out=self._delta)
            self._replica.state.subtract(self._delta)
            return
        found = [selected_values(words, size) for words in messages]
        for words in messages:
            apply(words, self.vector)
        indices = np.concatenate([indices for indices, _ in found])
        if indices.size:
            self._subtract_at(indices, np.concatenate([values for _, values in found]))
