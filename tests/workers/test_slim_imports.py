import subprocess
import sys
from tempfile import TemporaryDirectory

import pytest

from sparkwright.workers._trainer import hidden

TRAINER = """
import sys
from pathlib import Path
from sparkwright.workers._trainer import Trainer
Trainer(Path(sys.argv[1]), device="cpu", secret=b"").set_up(1)
looked_for = {"IPython", "matplotlib", "pandas", "sklearn", "keras", "tensorflow"}
print(sorted(looked_for & set(sys.modules)))
import keras, numpy, pandas, tensorflow as tf
print(tf.config.threading.get_intra_op_parallelism_threads(), pandas.DataFrame([1]).size)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
print(model(numpy.zeros((3, 2))).shape)
"""


def test_hidden_packages_can_be_imported_again_afterwards():
    sys.modules.pop("wave", None)
    with hidden(["wave"]), pytest.raises(ImportError):
        import wave
    import wave

    with hidden(["wave"]):  # what is loaded already stays in view
        import wave as again
    assert again is wave
    del sys.modules["wave"]
    with pytest.raises(KeyError), hidden(["wave"]):
        raise KeyError
    assert "wave" not in sys.modules


@pytest.mark.thorough
@pytest.mark.slow
def test_trainer_skips_unneeded_packages_that_users_can_still_import():
    with TemporaryDirectory(prefix="sw-") as folder:  # a socket's path must be short
        completed = subprocess.run(
            [sys.executable, "-c", TRAINER, f"{folder}/socket"],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert completed.stdout.splitlines() == ["['keras', 'tensorflow']", "1 1", "(3, 1)"], (
        completed.stdout + completed.stderr
    )
