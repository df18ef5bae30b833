import doctest
import importlib
import textwrap
from dataclasses import replace

from tests.cases import cases

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._contract import Sharing
from sparkwright_widgets._curve import NotFinite
from sparkwright_widgets._panel import Still
from sparkwright_widgets._reports._facts import facts_of
from sparkwright_widgets._reports._run_report import verdict_block
from sparkwright_widgets._traceback import users_code, users_frames
from sparkwright_widgets.blocks import summary


@cases("name", "_format", "_table")
def test_docstring_examples_pass(name):
    module = importlib.import_module(f"sparkwright_widgets.{name}")
    results = doctest.testmod(module)
    assert results.attempted > 0
    assert results.failed == 0


def test_each_state_has_a_label_and_is_announced_politely(run):
    run.set(state="queued")
    html = fragments.state_line("LeNet", run.status)
    assert "Queued" in html
    assert 'role="status" aria-live="polite"' in html
    run.set(state="training", message="training")  # which only repeats the state
    assert fragments.state_line("LeNet", run.status).lower().count("training") == 2  # class, word


def test_user_and_worker_text_is_escaped_without_terminal_colors(run, fake):
    worker = fake.FakeWorker(worker=0, host="<b>host</b>")
    run.set(state="failed", message="<script>", error="\x1b[31m<b>\x1b[0m &", workers=(worker,))
    html = fragments.failure(run.status) + fragments.state_line("<i>", run.status)
    html += fragments.worker_table(run.status.workers)
    assert "&lt;b&gt; &amp;" in html
    assert "&lt;b&gt;host" in html
    for forbidden in ("<script", "<i>", "<b>", "\x1b"):
        assert forbidden not in html


def test_empty_messages_are_not_shown(run):
    assert fragments.failure(run.status) == ""
    assert fragments.not_finite_banner(None) == ""
    assert fragments.worker_table(()) == ""
    assert fragments.lost_workers(run.status) == ""


def test_notes_on_scores_are_shown_beside_them(run):
    note = "Validation: the test set; <i>its scores</i> are not independent."
    assert "Validation" not in fragments.progress(run.status, 1.0)
    run.set(note=note)
    block = summary(run)
    done = replace(run.status, state="done")
    still = Still(at="", title="", status=done, mean_loss=None, lines={}, not_finite=None)
    card = still.card()
    verdict = verdict_block(facts_of(run), [], None, None)
    for html in (fragments.progress(run.status, 1.0), block.html, card.html, verdict.html):
        assert "the test set; &lt;i&gt;its scores" in html
    for text in (fragments.progress_text(run.status, 1.0), block.text, card.text, verdict.text):
        assert note in text


def test_banner_names_worker_step_and_value():
    html = fragments.not_finite_banner(NotFinite(worker=1, step=1240, value=float("nan"), count=3))
    assert "Worker 1 reported nan at step 1,240. 2 more since." in html


def test_progress_is_shown_by_labeled_bars_and_in_one_line_of_text(run):
    run.set(epoch=2, epochs=5, round=19, rounds=38)
    html = fragments.progress(run.status, 0.5)
    assert '<progress aria-label="Epoch" max="5" value="1.5">2 of 5</progress>' in html
    run.set(rounds=0)
    assert 'aria-label="Round"' not in fragments.progress(run.status, 0.5)
    run.set(epoch=2, round=12, rounds=38, remaining_s=12.3)
    assert fragments.progress_text(run.status, 0.213) == (
        "training; epoch 2 of 5; round 12 of 38; loss 0.2130; 6,123 examples/s; about 12 s left"
    )
    run.set(state="done", epoch=5, elapsed_s=65.0)
    assert fragments.progress_text(run.status, 0.1).endswith("6,123 examples/s; 1 min 05 s in all")


def test_gradient_sharing_run_counts_minibatches_instead_of_rounds(sharing_run, fake):
    worker = fake.FakeWorker(worker=0, rows=640, steps=21, sent_bytes=9_320)
    sharing_run.set(epoch=2, round=21, rounds=20, workers=(worker,), remaining_s=None)
    line = fragments.progress_text(sharing_run.status, 0.2, Sharing(batch_size=32))
    assert line.startswith("training; epoch 2 of 5; minibatch 20 of 20; loss 0.2000")
    html = fragments.progress(sharing_run.status, 0.2, Sharing(batch_size=32))
    assert 'aria-label="Minibatch"' in html
    assert "Round" not in html
    assert "<span>Minibatches</span> <b>21 of 100</b>" in html
    assert "<b>9.1 KiB</b>" in html
    assert "<b>21</b>" in fragments.progress(sharing_run.status, 0.2, Sharing())


def test_gradient_sharing_workers_show_their_messages(fake):
    worker = fake.FakeWorker(
        worker=0, threshold=0.012996, sparsity=0.044776, staleness=3, sent_bytes=9_320
    )
    silent = fake.FakeWorker(worker=1)
    html = fragments.worker_table([worker, silent], Sharing())
    heads = ["Loss", "Threshold", "Sparsity", "Sent", "Staleness", "Last message"]
    assert "".join(f'<th scope="col">{head}</th>' for head in heads) in html
    assert "<td>0.013</td><td>4.48%</td><td>9.1 KiB</td><td>3</td>" in html
    assert "<td>—</td><td>—</td><td>0 B</td><td>—</td>" in html
    assert "Threshold" not in fragments.worker_table([worker])


def test_lost_worker_is_shown_with_the_fate_of_its_work(run, fake):
    states = ("lost", "training", "lost", "lost")
    workers = tuple(fake.FakeWorker(worker=k, state=state) for k, state in enumerate(states))
    run.set(workers=workers)
    html = fragments.lost_workers(run.status, Sharing())
    assert "Workers 0, 2 and 3 are lost." in html
    assert "Their minibatches are trained once" in html
    assert "workers 0, 2 and 3 lost" in fragments.progress_text(run.status, None)
    run.set(workers=workers[:2])
    html = fragments.lost_workers(run.status)
    assert "Worker 0 is lost.</strong> Waiting for a replacement.</div>" in html
    run.set(state="failed")
    assert fragments.lost_workers(run.status, Sharing()) == ""


@cases(
    "fields, shown",
    ({"state": "starting", "restarts": 1}, "restarting"),
    ({"state": "stopped", "last_heard_s": 90.0}, "stopped"),
    ids=["rejoined", "of a stopped run"],
)
def test_state_of_a_worker_is_one_word(fake, fields, shown):
    html = fragments.worker_table([fake.FakeWorker(worker=0, **fields)])
    assert f"{shown}</td>" in html
    assert "silent" not in html


# Tracebacks


TRACEBACK = textwrap.dedent(
    """\
    worker 1 on host-a: ValueError
    Traceback (most recent call last):
      File "/opt/venv/lib/python3.11/site-packages/sparkwright/workers/_trainer.py", line 9, in run
        worker.run()
      File "\x1b[1m/home/ann/train.py\x1b[0m", line 12, in build
        return layer(
               ^^^^^^
      File "/opt/venv/lib/python3.11/site-packages/keras/src/utils/traceback.py", line 1, in e
        raise e.with_traceback(filtered_tb) from None
      File "/tmp/ipykernel_77/3941.py", line 4, in call
        raise ValueError("<shape>")
      File "<frozen importlib._bootstrap>", line 1, in load
    ValueError: <shape>
    """
)


def test_only_user_frames_count_and_the_innermost_comes_first():
    frames = users_frames(TRACEBACK)
    assert [frame.head for frame in frames] == [
        'File "/tmp/ipykernel_77/3941.py", line 4, in call',
        'File "/home/ann/train.py", line 12, in build',
    ]
    assert frames[0].source == ('raise ValueError("<shape>")',)
    assert frames[1].source == ("return layer(",)  # without the marks below it


def test_repeated_frames_are_shown_once_and_others_give_no_hint():
    text = "".join(f'File "/a.py", line {n % 7}, in f\n    x{n % 7}\n' for n in range(50))
    assert len(users_frames(text)) == 3
    assert users_code('File "/usr/lib/python3.11/queue.py", line 1, in get\n') == ""
    assert users_code("no traceback at all") == ""


def test_failed_run_shows_user_code_before_the_collapsed_section(run):
    run.set(state="failed", message="It failed.", error=TRACEBACK)
    html = fragments.failure(run.status)
    assert 'role="alert"' in html
    assert html.index("It failed.") < html.index("In your code:") < html.index("<details>")
    assert html.index("In your code:") < html.index("3941.py") < html.index("train.py")
    assert "\x1b" not in html
    assert "<shape>" not in html
    without = fragments.failure(replace(run.status, error="no frames"))
    assert "In your code" not in without
