"""GPUs that are not there, to see who would compute on which."""

import os
from collections.abc import Generator
from contextlib import contextmanager

from sparkwright.errors import ConfigurationError
from sparkwright.workers.gpus import FAKE_VARIABLE


@contextmanager
def fake_gpus(count: int) -> Generator[tuple[str, ...]]:
    """Meanwhile `start_spark` and `ParallelWrapper` find `count` GPUs on this machine.

    Their workers are processes with such a GPU's address, and compute on the CPU; they say so in
    the name of their device. A session that was started so goes on like this.

    Args:
        count: GPUs, at least 1; their addresses are "0", "1", …

    Raises:
        ConfigurationError: if `count` is less than 1.
    """
    if count < 1:
        raise ConfigurationError(f"`count` must be at least 1. Received: count={count}.")
    addresses = tuple(map(str, range(count)))
    before = os.environ.get(FAKE_VARIABLE)
    os.environ[FAKE_VARIABLE] = " ".join(addresses)
    try:
        yield addresses
    finally:
        if before is None:
            del os.environ[FAKE_VARIABLE]
        else:
            os.environ[FAKE_VARIABLE] = before
