"""Imports TensorFlow and Keras as a trainer needs them.

Keras takes along what it finds installed of pandas, scikit-learn, matplotlib and IPython: to accept
their objects, and to draw. A trainer has minibatches of arrays and draws nothing. Without them each
worker starts more than a second earlier and holds 70 MB less.
"""

import contextlib
import importlib
import sys
from collections.abc import Generator, Iterable

_NOT_NEEDED = ("IPython", "matplotlib", "pandas", "sklearn")


def import_keras() -> None:
    """Import Keras, and TensorFlow with it, without what a trainer has no use for.

    The user's layers and losses, which come later, find those packages as ever.
    """
    with hidden(_NOT_NEEDED):
        importlib.import_module("keras")


@contextlib.contextmanager
def hidden(packages: Iterable[str]) -> Generator[None]:
    """Meanwhile `import` does not find these packages; those that are loaded already it does.

    Args:
        packages: names of top-level packages.

    Example:
        >>> with hidden(["wave"]):
        ...     import wave
        Traceback (most recent call last):
            ...
        ModuleNotFoundError: import of wave halted; None in sys.modules
        >>> import wave
    """
    absent = [name for name in packages if name not in sys.modules]
    for name in absent:
        sys.modules[name] = None  # pyright: ignore[reportArgumentType]
    try:
        yield
    finally:
        for name in absent:
            del sys.modules[name]
