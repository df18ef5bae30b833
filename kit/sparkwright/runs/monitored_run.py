"""Early stopping of one run: its judge, and the best state, kept and saved."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from sparkwright.errors import ConfigurationError, NonFiniteLossError
from sparkwright.masters import EarlyStopping, TrainingMaster
from sparkwright.mesh.framing import Message
from sparkwright.networks import ModelDefinition
from sparkwright.workers.protocol import Failure, Progress

from ._checkpoint import LatestWriter
from ._checkpoint_format import Checkpoint, EpochState
from ._early_stopping import StoppingMonitor, StopReason, Verdict
from .engine import Outcome, StartState
from .record import RunRecord

Save = Callable[[Any, str], None]
_log = logging.getLogger(__name__)
# Maximum time to finish saving a model when the run ends.
_LAST_MODEL_S = 600.0


class MonitoredRun:
    """Applies the rules of early stopping to a run, and to its outcome.

    Attributes:
        judge: the rules.
        problem: the error in the rules that was found during training; None: none.
    """

    def __init__(
        self,
        rules: EarlyStopping,
        *,
        epochs: int,
        validates: bool,
        definition: ModelDefinition,
        master: TrainingMaster,
        save: Save,
        resume: Checkpoint | None = None,
    ) -> None:
        """Prepare without saving anything.

        Args:
            rules: the user's rules.
            epochs: maximum number of epochs.
            validates: whether there is validation data.
            definition: the model's definition.
            master: the training master.
            save: writes a model to a URL, atomically.
            resume: the checkpoint to resume from; default None.

        Raises:
            ConfigurationError: if the rules need validation data and there is none.
        """
        self.judge = StoppingMonitor(rules, epochs=epochs, validates=validates)
        self.problem: ConfigurationError | None = None
        self._keeper = ModelKeeper(definition, master, save=save, url=rules.best_url)
        self._record: RunRecord | None = None
        self._restored: EpochState | None = None  # saved when the run begins
        if resume is not None and resume.early_stopping:
            best = resume.best if rules.keep_best is not None else None
            self.judge.restore(resume.early_stopping, kept_epoch=best and best.epoch)
            if best is not None and self.judge.kept_epoch == best.epoch:
                self._restored = best

    # -- during the run ---------------------------------------------------------------------

    def begin(self, record: RunRecord, vector: Any, extras: bytes) -> None:
        """Begin the run from this state."""
        self._record = record
        self._keeper.begin(vector, extras)
        if self._restored is not None:
            self._keeper.keep(self._restored)

    def training_begins(self) -> None:
        """Start the clock, when all workers are connected."""
        self.judge.begin(now_s=time.monotonic())

    def check_losses(
        self, losses: Sequence[float] = (), metrics: Iterable[str] | None = None
    ) -> StopReason | None:
        """Check the losses since the last call; return why to stop now, or None.

        `metrics` are the names of the compiled metrics; None: unknown.
        """
        if metrics is not None and (wrong := self.judge.missing(metrics)):
            self.problem = ConfigurationError(wrong)
            return None
        reason = self.judge.within(losses, now_s=time.monotonic())
        if reason is not None:
            self._record_result()
        return reason

    def judged(self, verdict: Verdict) -> None:
        """Record a verdict."""
        self._record_result(verdict)

    def keep(self, message: Message, epoch: int) -> None:
        """Keep the best state so far, as received."""
        self._keeper.keep(EpochState.of(message, epoch))

    def checkpoint_fields(self) -> Mapping[str, Any]:
        """Return the fields of early stopping for a `Checkpoint`."""
        state = self.judge.to_dict(now_s=time.monotonic())
        return {"early_stopping": state, "best": self._keeper.best}

    # -- at the end -------------------------------------------------------------------------

    def settle(self, outcome: Outcome) -> Outcome:
        """Return the final outcome, with the best state if one was kept."""
        outcome = self._explained(outcome)
        ended = self._keeper.close(_LAST_MODEL_S)
        rules, best = self.judge.rules, self._keeper.best
        last_url = None
        if ended and rules.save_last is not None and outcome.vector is not None:
            last_url = self._keeper.save_now(outcome, rules.save_last)
        if best is not None:
            progress = replace(outcome.progress, iterations=best.iterations)
            outcome = replace(
                outcome, vector=best.vector, counters=best.counters, progress=progress
            )
        self.judge.settle(
            epochs=outcome.progress.complete_epochs,
            kept_epoch=None if best is None else best.epoch,
            best_url=self._keeper.best_url,
            last_url=last_url,
        )
        self._record_result()
        return outcome

    def _explained(self, outcome: Outcome) -> Outcome:
        """Record why the run ended; a NaN or infinite loss is not an error."""
        judge, error = self.judge, outcome.error
        if self.problem is not None and error is not None:
            error = self.problem
        if isinstance(error, NonFiniteLossError) and judge.rules.stop_on_invalid:
            judge.end(StopReason(kind="invalid", sentence=error.reason.split(". ")[0]))
            error = None
        elif error is not None:
            sentence = f"the run failed ({type(error).__name__})"
            judge.end(StopReason(kind="failure", sentence=sentence))
        elif outcome.stopped:
            judge.end(StopReason(kind="user", sentence="the run was stopped"))
        return replace(outcome, error=error)

    def _record_result(self, verdict: Verdict | None = None) -> None:
        if self._record is not None:
            self._record.early_stopping_found(self.judge.result, verdict)


def failure_of_rules(judged: MonitoredRun) -> Failure:
    """Return the failure of a run whose rules are invalid."""
    return Failure(worker=-1, host="the driver", kind="data", reason=str(judged.problem))


class ModelKeeper:
    """Keeps the best state, and saves models on a separate thread.

    The user's model does not change, because a new model of the same definition is saved.

    Attributes:
        best: the best state so far; None before the first.
        best_url: URL of the saved best model; None: none was saved.
    """

    def __init__(
        self, definition: ModelDefinition, master: TrainingMaster, *, save: Save, url: str | None
    ) -> None:
        """Create without a state; the best model is saved to `url`; None: not saved."""
        self.best: EpochState | None = None
        self.best_url: str | None = None
        self.first: tuple[NDArray[Any], bytes] | None = None
        self._definition, self._master, self._save, self._url = definition, master, save, url
        self._closed = False
        self._writer = LatestWriter(self._save_best, name="best-model")
        self._scratch: StartState | None = None
        self._model: Any = None

    def begin(self, vector: NDArray[Any], extras: bytes) -> None:
        """Set the state from which the run starts; saved models use its untrained parts."""
        self.first = (vector, extras)

    def keep(self, state: EpochState) -> None:
        """Keep `state` as the best so far; non-blocking. Its arrays must not change any more."""
        self.best = state
        if self._url is not None and not self._closed:
            self._writer.submit(state)

    def close(self, timeout_s: float) -> bool:
        """Save a pending model, then end the thread; return whether it ended in `timeout_s`."""
        self._closed = True
        ended = self._writer.close(timeout_s)
        if not ended:
            _log.warning("the best model was not saved to %s within %g s", self._url, timeout_s)
        return ended

    def save_now(self, outcome: Outcome, url: str) -> str | None:
        """Save the state of `outcome`, after `close`; return `url`, or None on failure."""
        try:
            self._write(outcome, url)
        except Exception as error:  # the trained state is still in memory
            _log.warning("no model saved to %s: %s", url, error)
            return None
        return url

    def _save_best(self, state: EpochState) -> None:
        assert self._url is not None
        outcome = Outcome(
            vector=state.vector,
            counters=state.counters,
            progress=Progress(iterations=state.iterations),
        )
        # After a failure, an earlier complete file remains.
        self.best_url = self.save_now(outcome, self._url) or self.best_url

    def _write(self, outcome: Outcome, url: str) -> None:
        if self._scratch is None:
            self._model = self._definition.build()
            self._scratch = StartState(self._model, self._master)
            if self.first is not None:
                self._scratch.restore(*self.first)
        self._scratch.take(outcome)
        self._save(self._model, url)
