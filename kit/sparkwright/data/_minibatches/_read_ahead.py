"""Reading ahead: while one file is used, threads fetch the next ones."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def read_ahead(
    items: Iterable[Item], function: Callable[[Item], Result], *, threads: int = 2, ahead: int = 4
) -> Generator[Result]:
    """`map(function, items)` with some results computed ahead, in order.

    An exception of `function` is raised at its place; the threads end with the iterator: `close` it
    if it is left before its end.

    Args:
        items: what to compute results of.
        function: called on threads.
        threads: how many; default 2.
        ahead: at most so many results wait or are under way; default 4.

    Example:
        >>> list(read_ahead([3, 1, 2], str))
        ['3', '1', '2']
    """
    rest = iter(items)
    with ThreadPoolExecutor(threads, thread_name_prefix="sparkwright-read") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            waiting.extend(pool.submit(function, item) for item in islice(rest, ahead))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()
