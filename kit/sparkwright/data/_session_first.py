"""Sources of data on Spark take the session first; who forgets it is told so."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from sparkwright.errors import ConfigurationError

from ._wording import clipped

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


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
