import doctest
import importlib

import pytest

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._curve import NotFinite


@pytest.mark.parametrize("name", ["_format", "_table"])
def test_examples_in_docstrings_hold(name):
    module = importlib.import_module(f"sparkwright_widgets.{name}")
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


@pytest.mark.parametrize(
    ("state", "word"),
    [("queued", "Queued"), ("training", "Training"), ("done", "Done"), ("failed", "Failed")],
)
def test_each_state_has_a_word_and_is_announced_politely(run, state, word):
    run.set(state=state)
    html = fragments.state_line("LeNet", run.status)
    assert word in html
    assert 'role="status" aria-live="polite"' in html


def test_a_message_that_only_repeats_the_state_is_left_out(run):
    run.set(state="training", message="training")
    assert fragments.state_line("LeNet", run.status).lower().count("training") == 2  # class, word


def test_what_users_and_workers_write_is_escaped_and_without_terminal_colours(run, fake):
    worker = fake.FakeWorker(worker=0, host="<b>host</b>")
    run.set(state="failed", message="<script>", error="\x1b[31m<b>\x1b[0m &", workers=(worker,))
    html = fragments.failure(run.status) + fragments.state_line("<i>", run.status)
    html += fragments.worker_table(run.status.workers)
    assert "&lt;b&gt; &amp;" in html
    assert "&lt;b&gt;host" in html
    for forbidden in ("<script", "<i>", "<b>", "\x1b"):
        assert forbidden not in html


def test_a_failure_tells_the_sentence_before_the_folded_traceback(run):
    run.set(state="failed", message="Worker 1 failed.", error="Traceback: …")
    html = fragments.failure(run.status)
    assert 'role="alert"' in html
    assert html.index("Worker 1 failed.") < html.index("<details>") < html.index("Traceback: …")


def test_nothing_is_shown_where_there_is_nothing_to_say(run):
    assert fragments.failure(run.status) == ""
    assert fragments.not_finite_banner(None) == ""
    assert fragments.worker_table(()) == ""


def test_the_banner_names_worker_step_and_value():
    html = fragments.not_finite_banner(NotFinite(worker=1, step=1240, value=float("nan"), count=3))
    assert "Worker 1 reported nan at step 1,240. 2 more since." in html


def test_bars_have_names_and_an_unknown_number_of_rounds_has_none(run):
    run.set(epoch=2, epochs=5, round=19, rounds=38)
    html = fragments.progress(run.status, 0.5)
    assert '<progress aria-label="Epoch" max="5" value="1.5">2 of 5</progress>' in html
    run.set(rounds=0)
    assert 'aria-label="Round"' not in fragments.progress(run.status, 0.5)


def test_progress_in_one_line_of_text(run):
    run.set(epoch=2, round=12, remaining_s=12.3)
    assert fragments.progress_text(run.status, 0.213) == (
        "training; epoch 2 of 5; round 12 of 38; loss 0.2130; 6,123 examples/s; about 12 s left"
    )
    run.set(state="done", epoch=5, elapsed_s=65.0)
    assert fragments.progress_text(run.status, 0.1).endswith("6,123 examples/s; 1 min 05 s in all")
