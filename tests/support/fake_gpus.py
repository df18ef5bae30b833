"""GPUs that are not there, to see who would compute on which."""

from contextlib import contextmanager

import pytest

from sparkwright.workers.gpus import FAKE_VARIABLE


@contextmanager
def fake_gpus(count):
    """Meanwhile `start_spark` and `ParallelWrapper` find `count` GPUs on this machine.

    Their workers are processes with such a GPU's address, and compute on the CPU; they say so in
    the name of their device. A session that was started so goes on like this. The addresses are
    "0", "1", …
    """
    addresses = tuple(map(str, range(count)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(FAKE_VARIABLE, " ".join(addresses))
        yield addresses
