"""A few threads that work ahead of whoever takes the results."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def on_threads(
    function: Callable[[Item], Result], items: Iterable[Item], *, threads: int
) -> Generator[Result]:
    """`function` of each item, in order, computed by threads up to four items a thread ahead.

    What `function` raises is raised where its result would be. Items are taken on the calling
    thread. Threads end with the iterator, also if it is closed early.

    Example:
        >>> list(on_threads(str.upper, "abc", threads=2))
        ['A', 'B', 'C']
    """
    waiting: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="sparkwright-images")
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > 4 * threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
