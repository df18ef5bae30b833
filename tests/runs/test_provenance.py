import logging
import subprocess
import threading

from tests.runs.recorded import WORKERS, ScriptedEngine, run_of

from sparkwright.runs._checkpoint import CheckpointWriter
from sparkwright.runs._listeners import WarningKeeper, git_revision
from sparkwright.runs.record import RunRecord


def test_the_commit_is_found_from_a_folder_below_and_in_a_worktree(tmp_path, monkeypatch):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert git_revision(tmp_path) is None
    git("init", "-q")
    assert git_revision(tmp_path) is None
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    (tmp_path / "side" / "notebooks").mkdir()
    commit = git("rev-parse", "HEAD")
    assert git_revision(tmp_path / "side" / "notebooks") == git_revision(tmp_path) == commit
    monkeypatch.setenv("PATH", "")
    assert git_revision(tmp_path) is None


def test_warnings_are_kept_once_each_and_only_within_the_block():
    keeper, logger = WarningKeeper("sparkwright-a"), logging.getLogger("sparkwright.data")
    logger.warning("before")
    with keeper.listening():
        for number in range(100):
            for _ in range(2):
                logger.warning("number %d", number)
            logger.info("no warning")
    logger.warning("after")
    assert keeper.texts == tuple(f"number {number}" for number in range(50))


def test_warnings_of_other_runs_are_not_kept():
    keepers = [WarningKeeper("sparkwright-run-1"), WarningKeeper("sparkwright-run-10")]
    logger, anybodys = logging.getLogger("sparkwright.runs"), "sparkwright-read-0"
    names = [
        ["sparkwright-run-1", "sparkwright-run-1-checkpoints", anybodys],
        ["sparkwright-run-10", "sparkwright-run-10-job", anybodys],
    ]
    with keepers[0].listening(), keepers[1].listening():
        for name in sorted({*names[0], *names[1]}, key=lambda name: name == anybodys):
            thread = threading.Thread(target=logger.warning, args=(f"from {name}",), name=name)
            thread.start()
            thread.join()
    for keeper, own in zip(keepers, names, strict=True):
        assert sorted(keeper.texts) == sorted(f"from {name}" for name in own)


def test_threads_that_write_for_a_run_bear_its_name(monkeypatch):
    monkeypatch.setattr(threading.current_thread(), "_name", "sparkwright-run-1")
    found = []

    def wrote(*_):
        found.append(threading.current_thread().name)

    writer = CheckpointWriter("/not/written", keep=3, wrote=wrote)
    writer.submit("no checkpoint")
    writer.close(5)
    assert found == ["sparkwright-run-1-checkpoints"]


def test_run_that_is_shown_as_finished_has_an_end_time():
    class Record(RunRecord):
        def state_changed(self, state, *arguments, **options):
            seen.append((state, run.ended_at))
            super().state_changed(state, *arguments, **options)

    engine, seen = ScriptedEngine(1), []
    run = run_of(engine, Record(workers=WORKERS, epochs=1, name="sparkwright-a"))
    engine.may_train.set()
    engine.may_end.set()
    run.wait(10)
    assert seen[-1] == ("done", run.ended_at)
    assert run.ended_at is not None
