"""Writes constraints.txt and binder/requirements.txt from what is installed in .venv.

Run it with .venv's Python after installing other versions there. Only what the project's
dependencies and extras lead to is written, so a package tried by hand in .venv stays out.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
OLDEST_PYTHON = "3.11.0"
# Installs the packages, and what builds the project and, for want of a wheel, PySpark.
BUILD_TOOLS = ("editables", "hatchling", "setuptools", "uv", "wheel")
# Binder's image brings its own JupyterLab, with a server and extensions that fit it.
NOT_ON_BINDER = ("jupyterlab",)
# .venv has one of them, Binder the second: the same TensorFlow without CUDA.
TENSORFLOW = ("tensorflow", "tensorflow-cpu")

CONSTRAINTS_HEADER = """\
# The exact versions that Sparkwright is developed and tested with, for --constraint of pip and uv.
# To refresh them: .venv/bin/uv pip install --upgrade --editable '.[notebook]' --group dev, with
# --override .venv/sparkwright.overrides; then .venv/bin/python .ci/pin.py, then make check test.
"""
BINDER_HEADER = """\
# Written by .ci/pin.py from constraints.txt; tests/test_binder.py compares them. These are the
# engine's and the notebook's packages with all that they need, without JupyterLab, which the
# image brings. Nothing here refers to another file of the repository: so the image's largest
# layer is built once and not again at every commit.
"""


def installed_closure(requirements: Iterable[str]) -> dict[str, str]:
    """Returns name -> version of what the requirements lead to in this environment."""
    found: dict[str, str] = {}
    visited: set[tuple[str, str]] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        for extra in ("", *sorted(requirement.extras)):
            key = (canonicalize_name(requirement.name), extra)
            if key in visited:
                continue
            visited.add(key)
            distribution = installed(requirement.name)
            reject_newer_python(distribution)
            found[distribution.metadata["Name"]] = distribution.version
            waiting += list(applicable(distribution.requires or [], extra))
    return found


def installed(name: str) -> metadata.Distribution:
    """Returns the package in this environment; for TensorFlow the build that is there."""
    if name not in TENSORFLOW:
        return metadata.distribution(name)
    return next(d for each in TENSORFLOW for d in metadata.distributions(name=each))


def applicable(requirements: Iterable[str], extra: str) -> Iterator[Requirement]:
    """Yields the requirements whose markers hold here, of the package itself or of an extra."""
    for text in requirements:
        requirement = Requirement(text)
        if requirement.marker is None:
            if not extra:
                yield requirement
        elif requirement.marker.evaluate({"extra": extra}):
            yield requirement


def reject_newer_python(distribution: metadata.Distribution) -> None:
    """Ends the program if a package excludes the oldest Python that the project supports.

    .venv may be made with a later patch release than, say, Debian's 3.11.2, and pip would then
    install here what it refuses there.
    """
    needed = distribution.metadata["Requires-Python"]
    if needed and not SpecifierSet(needed).contains(OLDEST_PYTHON):
        name, version = distribution.metadata["Name"], distribution.version
        raise SystemExit(
            f"Every pin must install on Python {OLDEST_PYTHON}. Received: {name}=={version}, which "
            f"needs Python {needed}. Install an older version: pip install '{name}<{version}'."
        )


def lines(versions: dict[str, str]) -> str:
    """Returns the pins as a requirements file, sorted as pip sorts them."""
    return "".join(f"{name}=={versions[name]}\n" for name in sorted(versions, key=str.lower))


def main() -> None:
    """Writes both files."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, groups = settings["project"], settings["dependency-groups"]
    notebook = project["optional-dependencies"]["notebook"]
    everything = [*project["dependencies"], *notebook, *groups["dev"], *BUILD_TOOLS]
    versions = installed_closure(everything)
    versions |= dict.fromkeys(TENSORFLOW, installed("tensorflow").version)
    (ROOT / "constraints.txt").write_text(CONSTRAINTS_HEADER + lines(versions))

    on_binder = [
        text
        for text in (*project["dependencies"], *notebook, "editables", "hatchling")
        if Requirement(text).name not in NOT_ON_BINDER
    ]
    versions = installed_closure(on_binder)
    versions.pop("tensorflow", None)
    versions["tensorflow-cpu"] = installed("tensorflow").version
    (ROOT / "binder" / "requirements.txt").write_text(BINDER_HEADER + lines(versions))


if __name__ == "__main__":
    main()
