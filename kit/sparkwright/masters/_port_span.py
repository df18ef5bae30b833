"""Ports as they are written: a number, or a span; pure."""

import re
from collections.abc import Mapping

from sparkwright.errors import ConfigurationError

_SPAN = re.compile(r"\s*([0-9]{1,5})\s*(?:-\s*([0-9]{1,5})\s*)?")


def port_span(text: str) -> range | None:
    """The ports that `text` names; None if it names none.

    Example:
        >>> port_span("50000-50100"), port_span("7077"), port_span("70000")
        (range(50000, 50101), range(7077, 7078), None)
    """
    match = _SPAN.fullmatch(text)
    if match is None:
        return None
    span = range(int(match[1]), int(match[2] or match[1]) + 1)
    return span if span and span[0] >= 1 and span[-1] <= 65535 else None


def ports_in_variable(variable: str, environ: Mapping[str, str]) -> range:
    """The ports that an environment variable of this machine names.

    Raises:
        ConfigurationError: if it is missing, or names none.
    """
    text = environ.get(variable)
    if text is None:
        raise ConfigurationError(
            f"`ports` names an environment variable that is not set on this machine. "
            f"Received: ports='env:{variable}'. Set {variable} where driver and workers start, "
            f"on Spark also with `spark.executorEnv.{variable}`."
        )
    found = port_span(text)
    if found is None:
        raise ConfigurationError(
            f"the environment variable {variable} must hold a number from 1 to 65535 or a span "
            f"such as \"50000-50100\". Received: {variable}={text!r}, from ports='env:{variable}'."
        )
    return found
