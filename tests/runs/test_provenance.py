import logging
import subprocess

import pytest

from sparkwright.runs._provenance import WarningKeeper, git_revision

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def clone(tmp_path):
    """A folder whose `.git` says which branch is checked out."""
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "notebooks").mkdir()
    return tmp_path


def test_the_commit_of_a_branch_is_found_from_a_folder_below(clone):
    (clone / ".git" / "refs" / "heads" / "main").write_text(f"{COMMIT}\n")
    assert git_revision(clone / "notebooks") == COMMIT


def test_the_commit_of_a_packed_branch_is_found(clone):
    lines = f"# pack-refs\n{'f' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n"
    (clone / ".git" / "packed-refs").write_text(lines)
    assert git_revision(clone) == COMMIT


def test_a_commit_without_a_branch_is_found(clone):
    (clone / ".git" / "HEAD").write_text(COMMIT)
    assert git_revision(clone) == COMMIT


@pytest.mark.parametrize("head", ["", "nonsense", "ref: refs/heads/none"])
def test_what_cannot_be_read_is_no_commit(clone, head):
    (clone / ".git" / "HEAD").write_text(head)
    assert git_revision(clone) is None


def test_git_itself_agrees_also_in_a_worktree(tmp_path):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "first")
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    assert git_revision(tmp_path / "side") == git_revision(tmp_path) == git("rev-parse", "HEAD")


def test_warnings_are_kept_once_each_and_only_within_the_block():
    keeper, logger = WarningKeeper(), logging.getLogger("sparkwright.data")
    logger.warning("before")
    with keeper.listening():
        for number in range(100):
            logger.warning("number %d", number)
            logger.warning("number %d", number)
            logger.info("no warning")
    logger.warning("after")
    assert keeper.texts[:2] == ("number 0", "number 1")
    assert len(keeper.texts) == 50
