import subprocess
import sys

import numpy as np
import pytest
from tests.cases import cases

import sparkwright as sw


def test_read_evaluations_equal_the_written_ones_and_can_be_merged(store):
    for counted in (
        sw.Evaluation(("cat", "dög"), confusion=np.array([[2**55 + 1, 1], [2, 7]])),
        sw.EvaluationBinary.from_predictions([[0, 1]], [[0.2, 0.7]]),
        sw.ROC.from_predictions([0, 1, 1], [0.1, 0.3, 0.2]),
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


def test_another_process_reads_an_evaluation(tmp_path):
    url = str(tmp_path / "e.json")
    sw.save_evaluation(sw.Evaluation(confusion=np.eye(2, dtype=int)), url)
    code = f"import sparkwright as sw; print(repr(sw.load_evaluation({url!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("Evaluation(2 examples")


@cases("content", b"", b"{", b"\xff\xfe", b"[1]", b'{"name": "roc"}', b'{"name": "os.system"}')
def test_files_without_an_evaluation_raise_with_the_url(tmp_path, content):
    path = tmp_path / "wrong.json"
    path.write_bytes(content)
    with pytest.raises(sw.DataError, match=r"wrong\.json"):
        sw.load_evaluation(str(path))


def test_oversized_files_are_not_read(tmp_path, monkeypatch):
    url = str(tmp_path / "evaluation.json")
    sw.save_evaluation(sw.Evaluation(), url)
    monkeypatch.setattr("sparkwright.storage._evaluations._MAX_BYTES", 20)
    with pytest.raises(sw.DataError, match=r"at most 20 bytes\. Received: .*evaluation\.json"):
        sw.load_evaluation(url)
