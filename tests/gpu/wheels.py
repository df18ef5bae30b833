"""Fetches the small wheels that a machine with GPUs may lack, to be carried there.

    python -m tests.gpu.wheels FOLDER

Such a machine has no network, but Python 3.12, JAX, NumPy, pandas and PyArrow. What it has already is
not installed from here.
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
# pip takes each of these literally.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in (28, 27, 24, 17, 12, 5)]
_PLATFORMS += [f"manylinux{year}_x86_64" for year in (2014, 2010, 1)]


def pinned() -> list[str]:
    """Each package with its version of constraints.txt."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    versions = {
        name.lower(): line for line in lines if "==" in line for name in [line.split("==")[0]]
    }
    return [versions[name.lower()] for name in NAMES]


def fetch(folder: Path) -> int:
    """Download the wheels into `folder`, which then holds nothing else; returns their bytes."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--python-version", "3.12"]
    command += ["--implementation", "cp", "--dest", str(folder)]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, *pinned()], check=True)
    total = sum(path.stat().st_size for path in folder.iterdir())
    if total > MOST_BYTES:
        raise SystemExit(f"The wheels must take at most {MOST_BYTES} bytes. Received: {total}.")
    return total


def install(folder: Path, target: Path) -> list[str]:
    """Install into `target` those wheels whose packages this Python lacks; returns their names."""
    wheels = {path.name.split("-")[0]: path for path in sorted(folder.glob("*.whl"))}
    if not wheels:
        raise SystemExit(f"{folder} must hold wheels. Received: none. Fetch them: make gpu-wheels.")
    lacking = {name: path for name, path in wheels.items() if not version_of(name)}
    if lacking:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
        command += ["--disable-pip-version-check", "--no-compile", "--no-cache-dir"]
        subprocess.run([*command, "--target", str(target), *map(str, lacking.values())], check=True)
    return list(lacking)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m tests.gpu.wheels FOLDER")
    print(f"{fetch(Path(sys.argv[1])) / 2**20:.1f} MiB of wheels in {sys.argv[1]}")
