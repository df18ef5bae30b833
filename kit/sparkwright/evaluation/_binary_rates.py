"""Rates of several yes-or-no questions, one by one and averaged."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from sparkwright.errors import ConfigurationError

from ._binary_counts import BinaryCounts, Counts, Rates
from ._output_names import number_of

Average = Literal["macro", "micro"]
Metric = Literal[
    "precision",
    "recall",
    "f1",
    "false_positive_rate",
    "false_negative_rate",
    "false_alarm_rate",
    "g_measure",
    "matthews_correlation",
]


class BinaryRates(ABC):
    """What evaluations share that count yes-or-no questions: "is it this class?", or an output.

    A rate that would be 0/0 has the value 0. Macro averages leave out questions whose rate is 0/0;
    `left_out` names them.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def counts(self) -> BinaryCounts:
        """True and false positives and negatives of each class or output, (C,) each."""

    @property
    @abstractmethod
    def _all_names(self) -> tuple[str, ...]:
        """A name for each class or output: the given one or its number."""

    @property
    def true_positives(self) -> Counts:
        """(C,) rows of the class, predicted so."""
        return self.counts.true_positives

    @property
    def false_positives(self) -> Counts:
        """(C,) rows of another class, predicted as this one."""
        return self.counts.false_positives

    @property
    def true_negatives(self) -> Counts:
        """(C,) rows of another class, predicted as another."""
        return self.counts.true_negatives

    @property
    def false_negatives(self) -> Counts:
        """(C,) rows of the class, predicted as another."""
        return self.counts.false_negatives

    @property
    def positives(self) -> Counts:
        """(C,) rows of the class."""
        return self.counts.positives

    @property
    def negatives(self) -> Counts:
        """(C,) rows of other classes."""
        return self.counts.negatives

    def precision(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Of the rows predicted as the class, the share that belongs to it.

        Args:
            average: "macro": mean over the classes or outputs, without those where it is 0/0;
                "micro": from the counts of all of them together.
            of: one of them, by number or name, instead of an average.

        Returns:
            From 0 to 1; 0 for 0/0.

        Raises:
            ConfigurationError: if there is no such class, output or average.
        """
        return self._rate(BinaryCounts.precision, average, of)

    def recall(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Of the rows of the class, the share predicted so. Arguments as in `precision`."""
        return self._rate(BinaryCounts.recall, average, of)

    def f1(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Harmonic mean of precision and recall. Arguments as in `precision`.

        The macro average is the mean of the classes' F1, not the F1 of mean precision and recall.
        """
        return self.f_beta(1.0, average, of=of)

    def f_beta(
        self, beta: float, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Harmonic mean of precision and recall, recall `beta` times as important.

        Args:
            beta: greater than 0.
            average: as in `precision`.
            of: as in `precision`.

        Raises:
            ConfigurationError: if `beta` is not finite and above 0.
        """
        if not (np.isfinite(beta) and beta > 0):
            raise ConfigurationError(
                f"`beta` must be finite and greater than 0. Received: beta={beta!r}."
            )
        return self._rate(lambda counts: counts.f_beta(beta), average, of)

    def false_positive_rate(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Of the rows of other classes, the share predicted so. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_positive_rate, average, of)

    def false_negative_rate(
        self, average: Average = "macro", *, of: int | str | None = None
    ) -> float:
        """Of the rows of the class, the share missed. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_negative_rate, average, of)

    def false_alarm_rate(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Mean of false positive and false negative rate. Arguments as in `precision`."""
        return self._rate(BinaryCounts.false_alarm_rate, average, of)

    def g_measure(self, average: Average = "macro", *, of: int | str | None = None) -> float:
        """Geometric mean of precision and recall. Arguments as in `precision`."""
        return self._rate(BinaryCounts.g_measure, average, of)

    def left_out(self, metric: Metric) -> tuple[str, ...]:
        """Names of the classes or outputs whose metric is 0/0, which macro averages leave out.

        Raises:
            ConfigurationError: if there is no such metric.
        """
        undefined = np.isnan(self._each(metric))
        return tuple(name for name, out in zip(self._all_names, undefined, strict=True) if out)

    def _each(self, metric: str) -> Rates:
        """(C,) NaN where it is 0/0."""
        if metric not in get_args(Metric):
            raise ConfigurationError(
                f"`metric` must be one of {', '.join(map(repr, get_args(Metric)))}. "
                f"Received: metric={metric!r}."
            )
        counts = self.counts
        return counts.f_beta(1.0) if metric == "f1" else getattr(counts, metric)()

    def _rate(
        self, rate: Callable[[BinaryCounts], Rates], average: str, of: int | str | None
    ) -> float:
        if average not in get_args(Average):
            raise ConfigurationError(
                f"`average` must be 'macro' or 'micro'. Received: average={average!r}."
            )
        if of is not None:
            values = rate(self.counts)[[number_of(of, self._all_names)]]
        else:
            values = rate(self.counts.pooled() if average == "micro" else self.counts)
        defined = values[~np.isnan(values)]
        return float(defined.mean()) if defined.size else 0.0
