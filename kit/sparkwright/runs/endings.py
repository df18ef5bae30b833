"""The end of a process by SIGTERM or SIGHUP: first it writes what it has learned."""

import signal
from typing import Any, NoReturn

from sparkwright.storage import save_model

from ._run_file import default_path
from .extensions import in_notebook


def keep_model(model: Any, name: str) -> str:
    """Write a model beside the stored runs; return a sentence with its path."""
    path = default_path().with_name(f"{name}.keras")
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(model, str(path))
    return f"It is in {path}: `sw.load_model`."


def end_process(number: int) -> NoReturn:
    """End this process as signal `number` does."""
    if in_notebook():  # a kernel outlives SystemExit
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)
    raise SystemExit(128 + number)
