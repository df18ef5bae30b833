"""Filters start-up notices of libraries from standard error; passes on other output."""

import contextlib
import os
import re
import sys
import threading
from collections.abc import Generator, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

_TENSORFLOW = "tensorflow"
_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
# TensorFlow 2.21 writes these as its libraries are loaded, whatever level is set.
_INFORMATION = re.compile(
    rb"I\d{4} \d\d:\d\d:\d|WARNING: All log messages before absl::InitializeLog|"
    rb"To enable the following instructions: "
)


def pass_on(source: int, notices: "re.Pattern[bytes]", target: int) -> threading.Thread:
    """Start a thread that copies the lines of the descriptor `source`, without notices."""

    def run() -> None:
        with open(source, "rb") as lines, contextlib.suppress(OSError):
            for line in lines:
                if not notices.match(line):
                    os.write(target, line)

    thread = threading.Thread(target=run, name="sparkwright-notices", daemon=True)
    thread.start()
    return thread


class _Quiet(MetaPathFinder):
    """Import hook that suppresses TensorFlow's start-up notices."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(fullname, path) if fullname == _TENSORFLOW else None
        loader: Any = None if spec is None else spec.loader
        if loader is not None:
            load = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                with _without_notices():
                    load(module)

            loader.exec_module = exec_module
        return spec


@contextlib.contextmanager
def _without_notices() -> Generator[None]:
    try:
        before = os.dup(2)
    except OSError:  # no standard error
        yield
        return
    source, target = os.pipe()
    reader = pass_on(source, _INFORMATION, before)
    os.dup2(target, 2)
    os.close(target)
    try:
        yield
    finally:
        os.dup2(before, 2)
        # A process started in the meantime may still write to the pipe.
        reader.join(1.0)
        if not reader.is_alive():
            os.close(before)


def quiet_tensorflow() -> None:
    """Suppress TensorFlow's start-up notices, unless the user has set its log level to "0"."""
    level = os.environ.setdefault(_LEVEL, "3")
    if _TENSORFLOW not in sys.modules and level != "0":
        sys.meta_path.insert(0, _Quiet())
