"""Makes what Binder's image would hold, in its order, without Docker.

repo2docker copies the repository, takes the Python of `runtime.txt`, installs its own JupyterLab,
then `requirements.txt`, runs `postBuild` in the repository's root, and starts the server through
`start`. Each step is a function here.
"""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
IMAGE_PACKAGES = Path(__file__).parent / "image-packages.txt"
# What this machine needs to reach a package index, or to find packages that lie here.
_PASSED_ON = re.compile(r"PIP_.*|.*_PROXY|.*_proxy|SSL_CERT_FILE|SSL_CERT_DIR|LANG|LC_.*")
_STEP_TIMEOUT_S = 900.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """A copy of the repository and a Python environment of its own."""

    repository: Path
    environment: Path
    home: Path

    @property
    def variables(self):
        """All environment variables in the image: few, as there."""
        return {
            **{name: text for name, text in os.environ.items() if _PASSED_ON.fullmatch(name)},
            "PATH": f"{self.environment / 'bin'}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(self.home),
        }

    def run(self, *command):
        """Run a command in the repository's root; returns what it prints."""
        completed = subprocess.run(
            [*map(str, command)],
            cwd=self.repository,
            env=self.variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_STEP_TIMEOUT_S,
            check=False,
        )
        if completed.returncode:
            raise RuntimeError(f"{command} ended with {completed.returncode}:\n{completed.stdout}")
        return completed.stdout

    def build(self):
        """Do what the image is built by; what is installed already stays."""
        pip = [self.environment / "bin" / "python", "-m", "pip"]
        install = [*pip, "install", "--quiet", "--no-input", "--requirement"]
        # Of the last time, in an environment that was kept: its `tensorflow` is `tensorflow-cpu`.
        self.run(*pip, "uninstall", "--quiet", "--yes", "sparkwright")
        self.run(*install, IMAGE_PACKAGES)
        self.run(*install, self.repository / "binder" / "requirements.txt")
        self.run(*pip, "check")
        self.run(self.repository / "binder" / "postBuild")

    def start_command(self, *command):
        """`command` as the image starts it, on one core."""
        return ["taskset", "--cpu-list", "0", self.repository / "binder" / "start", *command]


def python_wanted():
    """The interpreter that `runtime.txt` names, such as "python3.11"."""
    name, _, version = (ROOT / "binder" / "runtime.txt").read_text().strip().partition("-")
    return f"{name}{version}"


def new_image(folder, environment=None):
    """Copy the repository and make an empty Python environment."""
    python = shutil.which(python_wanted())
    if python is None:
        raise FileNotFoundError(f"{python_wanted()} is not installed")
    image = Image(
        repository=folder / "repository",
        environment=environment or folder / "environment",
        home=folder / "home",
    )
    image.home.mkdir(parents=True)
    copy_repository(image.repository)
    if not (image.environment / "bin" / "python").exists():
        subprocess.run([python, "-m", "venv", image.environment], check=True, timeout=300)
    return image


def copy_repository(target):
    """Copy the files that git would commit; what it ignores is not in an image either."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        if name and source.is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target / name)
