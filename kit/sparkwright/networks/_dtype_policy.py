"""Keras' default dtype policy, for a while."""

import contextlib
from collections.abc import Generator


@contextlib.contextmanager
def dtype_policy(name: str | None) -> Generator[None]:
    """Make `name` this thread's default policy for the block; None: leave it.

    Whether an optimizer scales the loss depends on it, so a model that was compiled under another
    one has other variables.
    """
    import keras

    before = keras.config.dtype_policy()
    if name is None or name == before.name:
        yield
        return
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
