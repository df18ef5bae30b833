"""The early-stopping rules of a run: from scores and losses to verdicts.

There is one verdict per epoch. It is repeated if requested again for the same epoch, after the loss
of a worker or a restart of training.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from sparkwright.errors import ConfigurationError
from sparkwright.evaluation.numbers import short_number
from sparkwright.masters import EarlyStopping

StopKind = Literal[
    "max_epochs", "max_seconds", "target", "patience", "invalid", "max_loss", "user", "failure"
]


@dataclass(frozen=True, kw_only=True, slots=True)
class StopReason:
    """Why a run ended.

    Attributes:
        kind: the option of `EarlyStopping` that ended it; "invalid" for a NaN or infinite score or
            loss; "user" after `stop` or an interrupt; "failure" after an error.
        sentence: a description with figures.
    """

    kind: StopKind
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Verdict:
    """The verdict on an epoch.

    Attributes:
        epoch: from 1.
        score: the validation score at its end.
        is_best: whether the score is better than in all earlier epochs.
        stop: why the run ends with this epoch; None: it continues.
    """

    epoch: int
    score: float
    is_best: bool
    stop: StopReason | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class EarlyStoppingResult:
    """The result of early stopping; final once the run is over.

    Attributes:
        monitor: the monitored quantity: "loss" or the name of a metric.
        maximizes: whether higher scores are better.
        scores: epoch (from 1) -> score, of the evaluated epochs.
        best_epoch: the (first) epoch with the best score; None without a valid score.
        best_score: its score; None without a valid score.
        without_improvement: evaluations since the last improvement.
        patience: the number of evaluations without improvement that ends the run; None: unlimited.
        reason: why the run ended; None while it continues.
        epochs: complete epochs trained, whether evaluated or not.
        model: which state the model holds: "best" or "last"; "" while the run continues.
        best_url: URL of the saved best model; None: not saved.
        last_url: URL of the saved last model; None: not saved.
    """

    monitor: str
    maximizes: bool
    scores: Mapping[int, float] = field(default_factory=dict[int, float])
    best_epoch: int | None = None
    best_score: float | None = None
    without_improvement: int = 0
    patience: int | None = None
    reason: StopReason | None = None
    epochs: int = 0
    model: Literal["", "best", "last"] = ""
    best_url: str | None = None
    last_url: str | None = None

    def __str__(self) -> str:
        """One line: the best score, and why the run ended."""
        best = "nothing evaluated"
        if self.best_score is not None:
            best = f"best {self.monitor} {short_number(self.best_score)} in epoch {self.best_epoch}"
        elif self.scores:
            best = "no valid score"
        return best if self.reason is None else f"{best}; {self.reason.sentence}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a JSON-serializable dictionary."""
        scores = {str(epoch): score for epoch, score in self.scores.items()}
        return {**asdict(self), "scores": scores}


class StoppingMonitor:
    """Decides after each evaluation, and within epochs, whether a run continues.

    Attributes:
        rules: the user's `EarlyStopping`.
        epochs: the maximum number of epochs.
        validates: whether there is validation data.
        result: the result so far.
        kept_epoch: the epoch whose state the driver keeps as the best; None: none.
    """

    def __init__(self, rules: EarlyStopping, *, epochs: int, validates: bool) -> None:
        """Create a monitor without scores.

        Raises:
            ConfigurationError: if the rules need scores and there is no validation data.
        """
        if rules.needs_validation and not validates:
            raise ConfigurationError(
                "`monitor`, `target`, `patience` and a URL for `keep_best` need validation data. "
                f"Received: validation=None, {rules!r}. Give `validation=…`."
            )
        self.rules, self.epochs, self.validates = rules, epochs, validates
        self.result = EarlyStoppingResult(
            monitor=rules.monitor, maximizes=rules.maximizes, patience=rules.patience
        )
        self.kept_epoch: int | None = None
        self._verdicts: dict[int, Verdict] = {}
        self._reference: float | None = None  # the last score that was an improvement
        self._began_s: float | None = None
        self._seconds_before = 0.0

    # -- at the end of an epoch -------------------------------------------------------------

    def is_due(self, epoch: int) -> bool:
        """Whether `epoch` is evaluated."""
        on_time = epoch > 0 and epoch % self.rules.evaluate_every == 0
        return self.validates and (on_time or epoch == self.epochs)

    def needs(self, epoch: int) -> bool:
        """Whether the workers must synchronize for a verdict on `epoch`, or for its state."""
        return self.is_due(epoch) and (epoch not in self._verdicts or self.wants_state(epoch))

    def wants_state(self, epoch: int) -> bool:
        """Whether a worker should send the state at the end of `epoch`, the best so far."""
        keeps = self.rules.keep_best is not None
        return keeps and epoch == self.result.best_epoch and epoch != self.kept_epoch

    def stops_after(self, epoch: int) -> bool:
        """Whether the verdict on `epoch` ends the run early."""
        verdict = self._verdicts.get(epoch)
        return verdict is not None and verdict.stop is not None and epoch < self.epochs

    def judge(self, epoch: int, *, loss: float, metrics: Mapping[str, float]) -> Verdict:
        """Return the verdict on `epoch` (from 1); repeated calls return the first one."""
        if epoch not in self._verdicts:
            monitor = self.rules.monitor
            # `missing` has already rejected unknown metrics.
            score = loss if monitor == "loss" else metrics.get(monitor, math.nan)
            is_best = self._take(epoch, score)
            stop = self._reason_of(epoch, score)
            self._verdicts[epoch] = Verdict(epoch=epoch, score=score, is_best=is_best, stop=stop)
            if stop is not None:
                self.end(stop)
        return self._verdicts[epoch]

    def _take(self, epoch: int, score: float) -> bool:
        """Record a score; return whether it is the best."""
        rules, found = self.rules, self.result
        is_best = improved = False
        if math.isfinite(score):
            best, reference = found.best_score, self._reference
            is_best = best is None or rules.improvement(score, over=best) > 0
            improved = (
                reference is None
                or rules.improvement(score, over=reference) > rules.min_improvement
            )
        if improved:
            self._reference = score
        self.result = replace(
            found,
            scores={**found.scores, epoch: score},
            best_epoch=epoch if is_best else found.best_epoch,
            best_score=score if is_best else found.best_score,
            without_improvement=0 if improved else found.without_improvement + 1,
            epochs=max(epoch, found.epochs),
        )
        return is_best

    def _reason_of(self, epoch: int, score: float) -> StopReason | None:
        rules, found = self.rules, self.result
        name = rules.monitor
        if rules.stop_on_invalid and not math.isfinite(score):
            return StopReason(kind="invalid", sentence=f"{name} is {score} after epoch {epoch}")
        if rules.target_is_reached(score):
            reached = f"{name} {short_number(score)} has reached the target {rules.target:g}"
            return StopReason(kind="target", sentence=f"{reached} after epoch {epoch}")
        if rules.patience is not None and found.without_improvement >= rules.patience:
            count = found.without_improvement
            by = f" by more than {rules.min_improvement:g}" if rules.min_improvement else ""
            last = "evaluation" if count == 1 else f"{count} evaluations"
            sentence = f"{name} has not improved{by} in the last {last}, up to epoch {epoch}"
            return StopReason(kind="patience", sentence=sentence)
        return self._all_epochs if epoch == self.epochs else None

    @property
    def _all_epochs(self) -> StopReason:
        return StopReason(kind="max_epochs", sentence=f"all epochs are trained: {self.epochs}")

    # -- within an epoch --------------------------------------------------------------------

    def begin(self, *, now_s: float) -> None:
        """Start the clock of `max_seconds`, when all workers are connected."""
        if self._began_s is None:
            self._began_s = now_s

    def seconds(self, *, now_s: float) -> float:
        """Training time in seconds, including the time before a checkpoint."""
        return self._seconds_before + (0.0 if self._began_s is None else now_s - self._began_s)

    def missing(self, metrics: Iterable[str]) -> str:
        """The error message if `monitor` is not among the compiled metrics; empty: no error."""
        monitor, known = self.rules.monitor, ["loss", *metrics]
        if not self.validates or monitor in known:
            return ""
        return (
            "`monitor` must be the loss or a compiled metric. Received: "
            f"monitor={monitor!r}; there are {', '.join(map(repr, known))}. Compile the model with "
            "`metrics=[…]`, or name one of these."
        )

    def within(self, losses: Sequence[float], *, now_s: float) -> StopReason | None:
        """Why the run must end with the next averaging; None: it continues, or ends already."""
        if self.result.reason is not None:
            return None
        found = self._reason_within(losses, now_s)
        if found is not None:
            self.end(found)
        return found

    def _reason_within(self, losses: Sequence[float], now_s: float) -> StopReason | None:
        rules = self.rules
        for loss in losses:
            if rules.stop_on_invalid and not math.isfinite(loss):
                return StopReason(kind="invalid", sentence=f"the loss of a minibatch is {loss}")
            if rules.max_loss is not None and loss > rules.max_loss:
                above = f"of a minibatch is above max_loss={rules.max_loss:g}"
                sentence = f"the loss {short_number(loss)} {above}"
                return StopReason(kind="max_loss", sentence=sentence)
        if rules.max_seconds is not None and self.seconds(now_s=now_s) >= rules.max_seconds:
            sentence = f"training has lasted {rules.max_seconds:g} s"
            return StopReason(kind="max_seconds", sentence=sentence)
        return None

    # -- the end ----------------------------------------------------------------------------

    def end(self, reason: StopReason) -> None:
        """Record the reason of the end; only a failure replaces an earlier reason."""
        if self.result.reason is None or reason.kind == "failure":
            self.result = replace(self.result, reason=reason)

    def settle(self, *, epochs: int, kept_epoch: int | None, **urls: str | None) -> None:
        """Complete the result after the run is over.

        Args:
            epochs: the number of complete epochs.
            kept_epoch: the epoch whose state the model holds as the best. A later epoch may have
                scored better, but its state did not arrive before the end. None: the model holds
                the last state.
            urls: `best_url` and `last_url`, where these models are saved.
        """
        self.end(self._all_epochs)
        model: Literal["best", "last"] = "last" if kept_epoch is None else "best"
        changes: dict[str, Any] = {"epochs": epochs, "model": model, **urls}
        if kept_epoch is not None and kept_epoch in self.result.scores:
            changes |= {"best_epoch": kept_epoch, "best_score": self.result.scores[kept_epoch]}
        self.result = replace(self.result, **changes)

    # -- checkpoints ------------------------------------------------------------------------

    def to_dict(self, *, now_s: float) -> dict[str, Any]:
        """Return JSON-serializable state for `restore`."""
        return {
            "monitor": self.rules.monitor,
            "scores": [[epoch, score] for epoch, score in self.result.scores.items()],
            "seconds": self.seconds(now_s=now_s),
        }

    def restore(self, state: Mapping[str, Any], *, kept_epoch: int | None) -> None:
        """Resume from `to_dict` of an earlier run; scores of another metric are dropped.

        The rules may differ from the earlier run's. They apply from the next evaluation on.

        Args:
            state: the result of `to_dict`.
            kept_epoch: the epoch whose state is restored as the best; None: no such state, so the
                best is chosen among the coming epochs.
        """
        self._seconds_before = float(state.get("seconds", 0.0))
        if state.get("monitor") != self.rules.monitor:
            return
        self.kept_epoch = kept_epoch
        for epoch, score in state["scores"]:
            number, value = int(epoch), float(score)
            is_best = self._take(number, value)
            self._verdicts[number] = Verdict(epoch=number, score=value, is_best=is_best)
        if self.rules.keep_best is not None and kept_epoch != self.result.best_epoch:
            self.kept_epoch = None
            self.result = replace(self.result, best_epoch=None, best_score=None)
