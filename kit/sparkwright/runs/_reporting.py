"""Writes the report of a run, by whatever package has registered itself for that."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import write_bytes

GROUP = "sparkwright.report"


def write_report(run: Any, url: str, options: Mapping[str, Any]) -> None:
    """Write what the entry point of the group `sparkwright.report` makes of `run` to `url`.

    The engine does not know the widgets: they register themselves.

    Args:
        run: the run.
        url: where to; nobody sees half of the file.
        options: what else the report is about, for the function of the entry point.

    Raises:
        ConfigurationError: if nothing is registered, or what is cannot be imported.
        OSError: whatever the store says, naming `url`.
    """
    write_bytes(url, _maker()(run, url=url, **options))


def _maker() -> Any:
    reason = f"nothing is registered as {GROUP!r}"
    for entry in entry_points(group=GROUP):
        try:
            return entry.load()
        except ImportError as error:
            reason = str(error)
    raise ConfigurationError(
        f"`run.report` needs the notebook packages. Received: {reason}. Install them with "
        "`pip install 'sparkwright[notebook]'`."
    )
