import json
import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path

import numpy as np
import pytest

import sparkwright
from sparkwright.cluster.engine_archive import archive_name, write_archive

pytestmark = [pytest.mark.spark, pytest.mark.cluster, pytest.mark.usefixtures("script_results")]
HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "docs" / "examples" / "train_digits.py"


def environment_at(folder, *more):
    """A virtual environment with the packages of this one, and none of what `.pth` files add.

    Sparkwright is installed here by such a file; in the new environment it is not.
    """
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python*/site-packages")
    packages = Path(np.__file__).parents[1]
    (site / "shared.pth").write_text("\n".join(map(str, [*more, packages])))
    return folder


def output_of(command, **environment):
    """What a process prints; its errors if it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True,
        text=True,
        check=False,
        timeout=270,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-6000:]
    return done.stdout


def changed_engine(folder):
    """A copy of the engine, in `folder`, that says it is version 0.0.1."""
    shutil.copytree(
        Path(sparkwright.__file__).parent,
        folder / "sparkwright",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    (folder / "sparkwright" / "_version.py").write_text('"""Old."""\n\n__version__ = "0.0.1"\n')
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    environment = environment_at(tmp_path_factory.mktemp("bare") / "environment")
    code = (
        "import importlib.util as u;"
        "print([u.find_spec(n) is not None for n in ('sparkwright', 'tensorflow', 'pyspark')])"
    )
    found = output_of([environment / "bin/python", "-c", code])
    assert found.strip() == "[False, True, True]"
    return environment


def packed(environment, archive):
    with tarfile.open(archive, "w:gz") as target:
        target.add(environment, arcname=".")
    return archive


def test_everything_works_on_executors_that_are_sent_engine_and_environment(bare, tmp_path):
    """Executors with a Python of their own, which does not find this repository."""
    archive, data = packed(bare, tmp_path / "environment.tar.gz"), tmp_path / "data"
    data.mkdir()
    out = output_of([sys.executable, HERE / "everything_from_the_archive.py", archive, data])
    seen = json.loads(out.splitlines()[-1])
    for master in ("ParameterAveragingTrainingMaster", "SharedTrainingMaster"):
        assert seen[master] > 0.6  # chance is a third
    assert seen["predicted"] == 240
    assert seen["later"] > 0
    for engine, python, has_widgets in seen["where"]:
        assert archive_name() in engine
        assert not has_widgets
        assert python.endswith("/environment/bin/python")
        assert not python.startswith(str(bare))
    assert seen["driver"] == [sparkwright.__file__, []]


def test_different_engine_on_executors_is_replaced_or_reported(tmp_path):
    """Executors with a Python of their own, which finds another engine."""
    other = environment_at(tmp_path / "environment", changed_engine(tmp_path / "old"))
    out = output_of([sys.executable, HERE / "ask_executors.py", other / "bin/python"])
    shipped, told = out.strip().split("\n", 1)
    assert archive_name() in shipped
    assert f"driver {sparkwright.__version__} (fingerprint" in told
    assert "0.0.1 (fingerprint" in told
    assert str(tmp_path / "old") in told
    assert "Start the session without `spark.sparkwright.ship=never`" in told


def test_spark_submit_runs_the_documented_script_where_nothing_has_the_engine(bare, tmp_path):
    """A driver, too, with a Python that finds no engine but the archive."""
    python = str(bare / "bin/python")
    out = output_of(
        [
            Path(sys.executable).parent / "spark-submit",
            *("--master", "local-cluster[2,1,1024]"),
            *("--conf", f"spark.pyspark.python={python}"),
            *("--conf", "spark.ui.enabled=false"),
            *("--py-files", write_archive(tmp_path)),
            *(EXAMPLE, "--epochs", "2", "--model", tmp_path / "digits.keras"),
        ],
        PYTHONPATH="",
        PYSPARK_PYTHON=python,
        PYSPARK_DRIVER_PYTHON=python,
    )
    (line,) = [line for line in out.splitlines() if line.startswith("accuracy: ")]
    assert float(line.split()[1]) > 0.7
    assert (tmp_path / "digits.keras").stat().st_size > 0
