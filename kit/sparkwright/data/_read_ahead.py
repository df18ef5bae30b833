"""Reading ahead: while one file is used, threads fetch the next ones."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

# Two files under way hide the latency of a store; four results wait for whoever uses them.
_THREADS = 2
_AHEAD = 4


def read_ahead(items: Iterable[Item], function: Callable[[Item], Result]) -> Iterator[Result]:
    """`map(function, items)` with up to four results computed ahead, in order.

    An exception of `function` is raised at its place; the threads end with the iterator.

    Example:
        >>> list(read_ahead([3, 1, 2], str))
        ['3', '1', '2']
    """
    rest = iter(items)
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="sparkwright-read") as pool:
        waiting: deque[Future[Result]] = deque()
        try:
            waiting.extend(pool.submit(function, item) for item in islice(rest, _AHEAD))
            while waiting:
                result = waiting.popleft().result()
                waiting.extend(pool.submit(function, item) for item in islice(rest, 1))
                yield result
        finally:
            for future in waiting:
                future.cancel()
