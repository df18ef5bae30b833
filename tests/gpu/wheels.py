"""Fetches the small wheels that a machine with GPUs and without a network may lack.

    python -m tests.gpu.wheels FOLDER

They are for Python 3.12, which has JAX, NumPy, pandas and PyArrow. `python3 -m tests.gpu --wheels
FOLDER` uses there what is missing.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from tests.gpu.machine import version_of
from tests.gpu.runner import ROOT

# Keras and what it imports, and what the engine imports beside NumPy, pandas and PyArrow.
NAMES = (
    *("keras", "absl-py", "h5py", "ml_dtypes", "namex", "optree", "packaging", "rich"),
    *("markdown-it-py", "mdurl", "Pygments", "typing_extensions"),
    *("cloudpickle", "cryptography", "cffi", "pycparser", "fsspec", "psutil", "PyYAML"),
)
MOST_BYTES = 40 << 20
_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
# pip takes each of these literally.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 17, 5)] + ["manylinux2014_x86_64"]
_FOR = ["--no-deps", "--only-binary=:all:", "--python-version", "3.12", "--implementation", "cp"]


def pinned():
    """Each package with its version of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = {line.partition("==")[0].lower(): line for line in lines}
    return [found[name.lower()] for name in NAMES]


def fetch(folder):
    """Download the wheels into `folder`, which then holds nothing else; returns their bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    platforms = [option for name in _PLATFORMS for option in ("--platform", name)]
    subprocess.run([*_PIP, "download", *_FOR, *platforms, "-d", folder, *pinned()], check=True)
    total = sum(path.stat().st_size for path in folder.iterdir())
    if total > MOST_BYTES:
        raise SystemExit(f"The wheels must take at most {MOST_BYTES} bytes. Received: {total}.")
    return total


def install(folder, target):
    """Install into `target` those wheels whose packages this Python lacks; returns their names."""
    wheels = {path.name.split("-")[0]: path for path in sorted(folder.glob("*.whl"))}
    if not wheels:
        raise SystemExit(f"{folder} must hold wheels. Received: none. Fetch them: make gpu-wheels.")
    lacking = {name: path for name, path in wheels.items() if not version_of(name)}
    if lacking:
        options = ["--no-index", "--no-deps", "--no-compile", "--target", target]
        subprocess.run([*_PIP, "install", *options, *lacking.values()], check=True)
    return list(lacking)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.gpu.wheels FOLDER")
    print(f"{fetch(Path(sys.argv[1])) / 2**20:.1f} MiB of wheels in {sys.argv[1]}")
