from __future__ import annotations

import os
import re
import subprocess
import tomllib
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from tests.cases import cases

ROOT = Path(__file__).parent.parent
BINDER = ROOT / "binder"
# Installed by the image itself, in the version that fits its server.
BROUGHT_BY_THE_IMAGE = {"jupyterlab"}
# `spark.driver.memory` must hold 1.5 times the 300 MB that Spark reserves.
SMALLEST_DRIVER_MEMORY_BYTES = 471_859_200


def pins(path):
    lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
    pairs = [line.split("==") for line in lines]
    return {canonicalize_name(name): version for name, version in pairs}


def binder_pins():
    return pins(BINDER / "requirements.txt")


def test_binder_installs_all_imports_in_the_tested_versions():
    # A line that is no pin, such as one of another file, fails: the image's largest layer would be
    # built anew at every commit.
    assert binder_pins().items() <= pins(ROOT / "constraints.txt").items()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["notebook"]]
    names = {canonicalize_name(Requirement(text).name) for text in wanted}
    assert names - BROUGHT_BY_THE_IMAGE - binder_pins().keys() == {"tensorflow"}
    assert "tensorflow-cpu" in binder_pins()


def test_dependencies_of_every_binder_pin_are_pinned():
    pinned = binder_pins()
    missing = set()
    for name in pinned.keys() - {"libclang"}:  # requires nothing; .ci/setup omits it
        for text in metadata.requires(name) or []:
            requirement = Requirement(text)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                missing |= {canonicalize_name(requirement.name)} - pinned.keys()
    assert missing == set()


def test_image_has_python_and_java_versions_supported_by_spark():
    assert (BINDER / "runtime.txt").read_text().strip() == "python-3.11"
    assert "openjdk-17-jre-headless" in (BINDER / "apt.txt").read_text().split()


@cases("name", "postBuild", "start")
def test_binder_scripts_are_executable_and_stop_at_the_first_error(name):
    assert os.access(BINDER / name, os.X_OK)
    assert "\nset -e\n" in (BINDER / name).read_text()


def test_start_runs_its_command_with_small_machine_settings():
    # By path: so it must be executable.
    printed = subprocess.check_output(
        [BINDER / "start", "env"], env={"PATH": os.defpath}, text=True
    )
    settings = dict(line.split("=", 1) for line in printed.splitlines())
    assert settings["SPARKWRIGHT_DEMO_WORKERS"] == "1"
    assert settings["SPARKWRIGHT_DEMO_MASTER"] == "local[1]"
    assert settings["CUDA_VISIBLE_DEVICES"] == "-1"
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        assert settings[name] == "1", name
    assert Path(settings["SPARK_CONF_DIR"], "spark-defaults.conf").is_file()


def test_spark_memory_is_small_but_sufficient():
    text = (BINDER / "spark" / "spark-defaults.conf").read_text()
    settings = dict(line.split(maxsplit=1) for line in text.splitlines() if line and line[0] != "#")
    megabytes = re.fullmatch(r"(\d+)m", settings["spark.driver.memory"])
    size_bytes = int(megabytes[1]) * 2**20
    assert SMALLEST_DRIVER_MEMORY_BYTES <= size_bytes <= 600 * 2**20
    assert settings["spark.ui.enabled"] == "false"
