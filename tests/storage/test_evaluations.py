"""Evaluations at URLs: of any kind, whole or not at all, and nothing else is read."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.errors import DataError
from sparkwright.evaluation import ROC, Evaluation, EvaluationBinary


def test_read_evaluations_equal_the_written_ones_and_can_be_merged(store: str) -> None:
    for counted in (
        Evaluation(("cat", "dög"), confusion=np.array([[2**55 + 1, 1], [2, 7]])),
        EvaluationBinary.from_predictions([[0, 1]], [[0.2, 0.7]]),
        ROC.from_predictions([0, 1, 1], [0.1, 0.3, 0.2]),
    ):
        url = f"{store}/deep/er/{counted.name}.json"
        sw.save_evaluation(counted, url)
        read = sw.load_evaluation(url)
        assert type(read) is type(counted)
        assert read == counted
        sw.save_evaluation(read + counted, url)  # replaces
        assert sw.load_evaluation(url) == counted + counted
    with pytest.raises(FileNotFoundError, match=r"none\.json does not exist"):
        sw.load_evaluation(f"{store}/none.json")


def test_another_process_reads_an_evaluation(tmp_path: Path) -> None:
    sw.save_evaluation(Evaluation(confusion=np.eye(2, dtype=int)), url := str(tmp_path / "e.json"))
    code = f"import sparkwright as sw; print(repr(sw.load_evaluation({url!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Evaluation(2 examples")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe", b"[1]", b'{"name": "roc"}', b'{"name": "os.system"}']
)
def test_files_without_an_evaluation_raise_with_the_url(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"wrong\.json"):
        sw.load_evaluation(str(path))


def test_oversized_files_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = str(tmp_path / "evaluation.json")
    sw.save_evaluation(Evaluation(), url)
    monkeypatch.setattr("sparkwright.storage._evaluations._MAX_BYTES", 20)
    with pytest.raises(DataError, match=r"at most 20 bytes\. Received: .*evaluation\.json"):
        sw.load_evaluation(url)
