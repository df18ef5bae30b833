"""However a run ends, and whatever its clean-up raises: one outcome, and the model is that of it.

The network counts what it was trained on (`tests.chaos.counting`), so its parameters say which
averagings it holds, whatever the run claims.
"""

import re
import threading

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from tests.chaos import counting

import sparkwright as sw
from sparkwright import local

WORKERS, EPOCHS = 2, 3
EXAMPLES = 3 * counting.BATCH * WORKERS  # three minibatches of each worker in an epoch
ERRORS = [RuntimeError, SystemExit, MemoryError, KeyboardInterrupt]
AFTER_THE_END = ["finish", "clean_up"]
MASTERS = {
    "averaging": sw.ParameterAveragingTrainingMaster(
        batch_size_per_worker=counting.BATCH, averaging_frequency=1, seed=1
    ),
    # Each minibatch changes a parameter by more than the threshold, so all of it is shared.
    "sharing": sw.SharedTrainingMaster(
        batch_size_per_worker=counting.BATCH,
        threshold=sw.FixedThreshold(threshold=counting.SENT / counting.BATCH),
        residual_clipping=None,
        minibatches_per_message=1,
        seed=1,
    ),
}
# A method of the launcher, and which of its calls raises.
PLACES = [
    *(("none", 0), ("prepare", 1), ("launch", 1), ("launch", 2), ("launch", 3)),
    *(("finish", 1), ("clean_up", 1), ("cancel", 1)),
]


class Failing:
    """A launcher, one of whose methods raises at its n-th call."""

    def __init__(self, launcher, method, at, error):
        self._launcher, self._method, self._at, self._error = launcher, method, at, error
        self._calls = 0

    def __getattr__(self, name):
        found = getattr(self._launcher, name)
        if name != self._method:
            return found

        def call(*args, **options):
            self._calls += 1
            if self._calls != self._at:
                return found(*args, **options)
            if name in AFTER_THE_END:  # what it releases is released, or tests would leave it
                found(*args, **options)
            raise self._error(3)

        return call


@pytest.mark.usefixtures("in_process")
@given(
    kind=st.sampled_from(["averaging", "sharing"]),
    place=st.sampled_from(PLACES),
    error=st.sampled_from(ERRORS),
    end=st.sampled_from(["alone", "stop", "listener", "callback"]),
    event=st.integers(1, 12),
)
@example(kind="averaging", place=("finish", 1), error=RuntimeError, end="alone", event=1)
@example(kind="averaging", place=("clean_up", 1), error=SystemExit, end="alone", event=1)
@example(kind="sharing", place=("none", 0), error=SystemExit, end="callback", event=1)
@example(kind="sharing", place=("clean_up", 1), error=SystemExit, end="callback", event=2)
@settings(max_examples=25)
def test_a_run_has_one_outcome_and_the_model_is_that_of_it(kind, place, error, end, event):
    method, at = place
    model = counting.counter(EXAMPLES)
    master = MASTERS[kind]
    seen, runs = iter(range(1, 1000)), []

    def disturb(*_):
        if next(seen) == event:
            if end == "stop":
                runs[0].stop()
            elif end != "alone":
                raise error(3)

    with pytest.MonkeyPatch.context() as patch:
        real = local.LocalLauncher
        patch.setattr(
            local, "LocalLauncher", lambda **given: Failing(real(**given), method, at, error)
        )
        with sw.ParallelWrapper(model, master, workers=WORKERS) as wrapper:
            callbacks = [on_epoch(disturb)] if end == "callback" else []
            run = wrapper.start(
                counting.examples(EXAMPLES), epochs=EPOCHS, callbacks=callbacks, display=False
            )
            runs.append(run)
            if end in ("stop", "listener"):
                run.add_listener(disturb)
            raised = outcome_of(run)
    status = run.status
    done = counting.counts(model)
    assert np.isfinite(done).all()
    if kind == "averaging":
        assert done[0] == pytest.approx(status.averagings), "the model is not that of the outcome"
    if status.state == "done":
        assert raised is None
        shared = (
            counting.SENT if kind == "sharing" else 0.0
        )  # of each minibatch; the rest is averaged
        trained = EPOCHS * (shared + (1 - shared) / WORKERS)
        np.testing.assert_allclose(done[1:], trained, atol=1e-4)
    elif status.state == "failed":
        assert raised is not None
        assert isinstance(raised, Exception), "it would end a script in silence"
        text = "\n".join([str(raised), *getattr(raised, "__notes__", [])])
        held = re.search(r"The model (is unchanged|holds the .* after (?:averaging )?(\d+))", text)
        assert held or not status.averagings, text
        count = int((held and held[2]) or 0)
        assert (count > 0) == (done[0] > 0), text
        assert count == status.averagings or "minibatches" in held[0], text
    else:
        assert (status.state, end) == ("stopped", "stop")
    if end in ("alone", "listener") and method in ("none", "cancel", *AFTER_THE_END):
        assert status.state == "done", "clean-up or a listener has replaced the outcome"


def on_epoch(call):
    import keras

    class Calling(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            call(epoch)

    return Calling()


def outcome_of(run):
    """What `wait` raises; a run that does not end fails the test."""
    found = []

    def wait():
        try:
            run.wait(60)
        except BaseException as raised:
            found.append(raised)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(70)
    assert run.finished, "the run does not end"
    return found[0] if found else None
