"""What comes from a file is checked before it counts."""

from collections.abc import Generator
from contextlib import contextmanager

from sparkwright.errors import ConfigurationError, DataError


@contextmanager
def reading(what: str) -> Generator[None]:
    """Whatever wrong values make a constructor raise, as a DataError.

    Args:
        what: the class that is read.

    Raises:
        DataError: for every complaint about a value or its type.
    """
    try:
        yield
    except DataError:
        raise
    except (ConfigurationError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise DataError(
            f"what is read as {what} must have been written by one. Received: {error}"
        ) from None
    except OverflowError as error:
        raise DataError(f"{what} holds a number that is too large. Received: {error}.") from None
