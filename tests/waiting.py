"""Waiting with an end, for tests."""

import threading
import time


def wait_until(condition, seconds=20.0):
    """What `condition()` returns once that is true: every few milliseconds, `seconds` at most."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not come true within {seconds:g} s"
        time.sleep(0.01)
    return found


def names_of_threads(start):
    """Threads that run now and whose names begin so."""
    return [thread.name for thread in threading.enumerate() if thread.name.startswith(start)]


def join_threads(start):
    """Give threads whose names begin so five seconds each to end."""
    for thread in threading.enumerate():
        if thread.name.startswith(start):
            thread.join(5)
            assert not thread.is_alive(), thread.name
