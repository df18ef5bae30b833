"""Looks that take too long: the caller stops waiting, and the work stops too."""

import queue
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from sparkwright.errors import RunTimeoutError
from sparkwright.storage._files import is_on_this_machine

_T = TypeVar("_T")
_here = threading.local()


class _NobodyWaitsError(Exception):
    """Ends work whose result nobody wants any more."""


def within(timeout_s: float, function: Callable[[], _T], url: str) -> _T:
    """What `function` gives, which runs in a thread of its own.

    If it takes longer, it ends at the next `still_wanted`. One that is called by such a `function`
    has no limit of its own: the outer one holds for both.

    Raises:
        RunTimeoutError: naming the URL.
    """
    if getattr(_here, "over", None) is not None:
        return function()
    answers: queue.SimpleQueue[tuple[bool, Any]] = queue.SimpleQueue()
    over = threading.Event()

    def ask() -> None:
        _here.over = over
        try:
            answers.put((True, function()))
        except BaseException as error:
            answers.put((False, error))

    threading.Thread(target=ask, name="sparkwright-browse", daemon=True).start()
    try:
        is_result, found = answers.get(timeout=timeout_s)
    except queue.Empty:
        raise RunTimeoutError(_too_long(timeout_s, url)) from None
    finally:
        over.set()
    if is_result:
        return found
    raise found


def still_wanted() -> None:
    """To be called in every loop that may be long: ends the work if nobody waits for it.

    Nothing happens outside of `within`.
    """
    over: threading.Event | None = getattr(_here, "over", None)
    if over is not None and over.is_set():
        raise _NobodyWaitsError


def _too_long(timeout_s: float, url: str) -> str:
    if is_on_this_machine(url):
        return (
            f"a look at data must end within {timeout_s:g} s. Received: no end yet of {url}. "
            "Look at fewer bytes or columns, or raise `timeout_s`."
        )
    return (
        f"a store must answer within {timeout_s:g} s. Received: nothing yet from {url}. "
        "Check the host, and that it can be reached from here."
    )
