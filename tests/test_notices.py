import os
import subprocess
import sys

from tests.cases import cases

# What TensorFlow 2.21 writes as it is imported, and an error between.
LIBRARY = """
import os
os.write(2, b"WARNING: All log messages before absl::InitializeLog() is called are written\\n")
os.write(2, b"I0000 00:00:1795616307.576816   21239 port.cc:153] oneDNN operations are on\\n")
os.write(2, b"F0000 00:00:1795616307.576816   21239 real.cc:1] an error\\n")
"""
SCRIPT = """
import importlib.util, os
import sparkwright
assert importlib.util.find_spec("tensorflow")  # others only look whether it is there
import tensorflow
os.write(2, b"I0000 00:00:1795616307.576816   21239 of the user's\\n")
print(os.environ["TF_CPP_MIN_LOG_LEVEL"])
"""


@cases("level, lines", (None, 2), ("3", 2), ("0", 4))
def test_library_notices_are_hidden_by_default(level, lines, tmp_path):
    (tmp_path / "tensorflow.py").write_text(LIBRARY)
    given = {n: t for n, t in os.environ.items() if n != "TF_CPP_MIN_LOG_LEVEL"}
    given["PYTHONPATH"] = os.pathsep.join([str(tmp_path), given.get("PYTHONPATH", "")])
    if level is not None:
        given["TF_CPP_MIN_LOG_LEVEL"] = level
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=given, check=True
    )
    assert done.stdout.strip() == (level or "3")
    found = done.stderr.splitlines()
    assert len(found) == lines
    assert [text.split("] ")[-1].split()[-1] for text in found[-2:]] == ["error", "user's"]
