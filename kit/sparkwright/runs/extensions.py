"""What a run does outside training: its live panel, its report, and the end of the process.

The notebook packages register panel and report as entry points, so that sparkwright does not depend
on them.
"""

import signal
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, NoReturn

from sparkwright.errors import ConfigurationError
from sparkwright.storage import save_model
from sparkwright.storage.files import write_bytes

from ._run_file import default_path

DISPLAY, REPORT = "sparkwright.display", "sparkwright.report"


def in_notebook() -> bool:
    """Whether this code runs in an IPython kernel."""
    import sys

    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None


def show(run: Any) -> None:
    """Display `run` with the registered panel, or as one line of text."""
    from IPython.display import display

    panel_for, _ = _registered(DISPLAY)
    if panel_for is None:
        display({"text/plain": repr(run)}, raw=True)
    else:
        display(panel_for(run))


def write_report(run: Any, url: str, options: Mapping[str, Any]) -> None:
    """Write the report of `run` with the registered function to `url`, atomically."""
    make, reason = _registered(REPORT)
    if make is None:
        raise ConfigurationError(
            f"`run.report` needs the notebook packages. Received: {reason}. Install them with "
            "`pip install 'sparkwright[notebook]'`."
        )
    write_bytes(url, make(run, url=url, **options))


def _registered(group: str) -> tuple[Any, str]:
    """Return the first importable entry point of `group`, or None and the reason."""
    reason = f"nothing is registered as {group!r}"
    for entry in entry_points(group=group):
        try:
            return entry.load(), ""
        except ImportError as error:
            reason = str(error)
    return None, reason


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
