"""Arguments in error messages: long values shortened, a missing session refused."""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sparkwright.errors import ConfigurationError

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def shortened(values: Iterable[Any], *, limit: int = 10) -> str:
    """The first few of `values` as text.

    Example:
        >>> shortened(range(20), limit=3)
        '0, 1, 2, … (20 in all)'
    """
    items = list(values)
    text = ", ".join(clipped(str(item)) for item in items[:limit])
    return text if len(items) <= limit else f"{text}, … ({len(items)} in all)"


def clipped(text: str, *, limit: int = 60) -> str:
    """`text`, or its beginning: what is wrong in a file may be megabytes long.

    Example:
        >>> clipped("abcdefgh", limit=4)
        'abcd…'
    """
    return text if len(text) <= limit else f"{text[:limit]}…"


def session_first(source: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """`source`, which refuses anything but a Spark session as its first argument.

    Example:
        >>> @session_first
        ... def from_nothing(spark, url): ...
        >>> from_nothing("a.csv")
        Traceback (most recent call last):
        sparkwright.errors.ConfigurationError: `spark`, the Spark session, must be the first ...
    """

    @wraps(source)
    def checked(*arguments: Parameters.args, **options: Parameters.kwargs) -> Result:
        given = bool(arguments) or "spark" in options
        spark: Any = arguments[0] if arguments else options.get("spark")
        if given and spark is not None and not hasattr(spark, "sparkContext"):
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
