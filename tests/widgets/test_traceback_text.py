import dataclasses
import textwrap

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._traceback_text import users_code, users_frames

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


def test_only_the_users_frames_count_and_the_innermost_comes_first():
    frames = users_frames(TRACEBACK)
    assert [frame.head for frame in frames] == [
        'File "/tmp/ipykernel_77/3941.py", line 4, in call',
        'File "/home/ann/train.py", line 12, in build',
    ]
    assert frames[0].source == ('raise ValueError("<shape>")',)
    assert frames[1].source == ("return layer(",)  # without the marks below it


def test_a_frame_that_comes_twice_is_shown_once_and_not_too_many():
    text = "".join(f'File "/a.py", line {n % 7}, in f\n    x{n % 7}\n' for n in range(50))
    assert len(users_frames(text)) == 3


def test_nothing_is_said_where_no_code_is_the_users():
    assert users_code('File "/usr/lib/python3.11/queue.py", line 1, in get\n') == ""
    assert users_code("no traceback at all") == ""


def test_a_failed_run_shows_the_users_code_before_the_fold(run):
    run.set(state="failed", message="It failed.", error=TRACEBACK)
    html = fragments.failure(run.status)
    assert html.index("It failed.") < html.index("In your code:") < html.index("<details>")
    assert html.index("In your code:") < html.index("3941.py") < html.index("train.py")
    assert "\x1b" not in html
    assert "<shape>" not in html
    without = fragments.failure(dataclasses.replace(run.status, error="no frames"))
    assert "In your code" not in without
