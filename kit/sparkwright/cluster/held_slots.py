"""The task slots of a run whose callback this thread calls: its jobs must not wait for them."""

import contextlib
import threading
from collections.abc import Generator
from typing import Any

from sparkwright.errors import SlotsError

_of_thread = threading.local()  # `holding`: (application, slots that its run holds, slots)


@contextlib.contextmanager
def holding(application: str, held: int, slots: int | None) -> Generator[None]:
    """Let Spark jobs of this thread fail within the block if its run holds all slots."""
    _of_thread.holding = application, held, slots
    try:
        yield
    finally:
        del _of_thread.holding


def check_free_slot(context: Any) -> None:
    """Raise if a job of this thread would wait for a slot of the run that waits for the job."""
    application, held, slots = getattr(_of_thread, "holding", ("", 0, None))
    if slots is not None and held >= slots and context.applicationId == application:
        raise SlotsError(
            "a Spark job in a callback needs a task slot beside those of its run. Received: "
            f"slots={slots}, of which the run holds {held}. Evaluate after the run, pass "
            f"`validation=…`, use fewer workers, or start Spark with `workers={slots + 1}`."
        )
