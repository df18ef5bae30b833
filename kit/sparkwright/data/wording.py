"""Helpers for error messages and arguments: shorten values, check options and the session."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sparkwright.errors import ConfigurationError

_SHOWN = 12
Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def listed(names: Iterable[Any]) -> str:
    """Format names or paths for a message: at most 12, each of at most 250 characters."""
    shown = [clipped(repr(name), limit=250) for name in names]
    more = len(shown) - _SHOWN
    return ", ".join(shown[:_SHOWN]) + (f", … ({more} more)" if more > 0 else "") or "none"


def clipped(text: str, *, limit: int = 60) -> str:
    """Return at most `limit` characters of `text`, as invalid values may be megabytes long."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def text_remedy(name: str) -> str:
    """Return how to use a column of text, without a full stop."""
    return (
        f'For a text feature, set `categories={{{name!r}: "infer"}}`; for free text, `text`; for '
        "labels, `classes`"
    )


def with_options_of(
    *sources: Callable[..., Any],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Give a function's `**options` the keywords of `sources` in its signature; reject others."""

    def decorated(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        own = inspect.signature(function)
        given = [p for p in own.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = {p.name: p for p in given if p.kind is p.KEYWORD_ONLY}
        every = [p for each in sources for p in inspect.signature(each).parameters.values()]
        more = [p for p in every if p.kind is p.KEYWORD_ONLY and p.name not in named]
        first = [p for p in given if p.name not in named]
        known = {p.name for p in (*given, *more)}

        @wraps(function)
        def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
            if unknown := options.keys() - known:
                name = getattr(function, "__name__", "")
                raise TypeError(f"{name}() got an unexpected keyword argument {min(unknown)!r}")
            return function(*arguments, **options)

        shown: Any = checked
        shown.__signature__ = own.replace(parameters=[*first, *more, *named.values()])
        return checked

    return decorated


def is_session(spark: Any) -> bool:
    """Whether `spark` is a Spark session, including one of Spark Connect."""
    return hasattr(spark, "createDataFrame")


def session_first(source: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Decorate `source` to raise unless its first argument is a Spark session."""

    @wraps(source)
    def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        given = bool(arguments) or "spark" in options
        spark: Any = arguments[0] if arguments else options.get("spark")
        if given and spark is not None and not is_session(spark):
            raise _refused(source, spark)
        try:
            return source(*arguments, **options)
        except AttributeError:
            if given and spark is None:  # the first use of it
                raise _refused(source, spark) from None
            raise

    return checked


def _refused(source: Callable[..., Any], spark: Any) -> ConfigurationError:
    name = getattr(source, "__name__", "this source")
    return ConfigurationError(
        f"`spark`, the Spark session, must be the first argument of `{name}`. Received: "
        f"{clipped(repr(spark))}. Make one with `spark = sw.start_spark()`."
    )
