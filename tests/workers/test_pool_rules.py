"""Where trainers live, and who may use them."""

import os
from pathlib import Path

import pytest

from sparkwright.errors import NetworkError
from sparkwright.workers._pool import TrainerPool


def test_the_folder_belongs_to_its_owner_alone() -> None:
    pool = TrainerPool(owner=os.getpid())
    assert pool.folder.stat().st_mode & 0o777 == 0o700
    assert TrainerPool(owner=os.getpid()).folder == pool.folder
    pool.folder.chmod(0o755)
    with pytest.raises(NetworkError, match="must belong to this user alone"):
        TrainerPool(owner=os.getpid())
    pool.folder.chmod(0o700)
    pool.close()
    assert not pool.folder.exists()


def test_scratch_lies_in_sparks_local_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pool = TrainerPool(owner=os.getpid())
    monkeypatch.setenv("LOCAL_DIRS", f"{tmp_path},/elsewhere")
    assert pool.scratch().parent == tmp_path
    monkeypatch.delenv("LOCAL_DIRS")
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    assert pool.scratch().parent == pool.folder
    pool.close()
