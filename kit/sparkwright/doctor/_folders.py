"""Check shared folders: driver and executors write files and read each other's."""

import contextlib
import re
import secrets
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import Any

from sparkwright.storage.files import (
    is_folder,
    join,
    read_bytes,
    remove_empty_folder,
    remove_tree,
    write_bytes,
)

from ._orders import all_within, file_of

# In Azure URLs, this part is a container, not a user.
_IN_ADDRESS = re.compile(r"(?<!abfs://)(?<!abfss://)(?<=://)[^/\s@]+(?=@)")
_QUERY = re.compile(r"\?\S*")


def redacted_url(url: str) -> str:
    """Remove possible secrets from the URLs in a text.

    Example:
        >>> redacted_url("s3://ann:abc@bucket/a?sig=x")
        's3://(hidden)@bucket/a'
    """
    return _QUERY.sub("", _IN_ADDRESS.sub("(hidden)", url))


@contextlib.contextmanager
def folders_at(
    urls: Iterable[str], seconds: float
) -> Generator[tuple[dict[str, str], dict[str, str]]]:
    """Create temporary folders at the URLs, each with a file of the driver; remove them after."""
    told = {redacted_url(url): url for url in urls}
    made: set[str] = set()
    content = secrets.token_bytes(64)
    mine = {
        shown: join(url, f".sparkwright-doctor-{secrets.token_hex(6)}")
        for shown, url in told.items()
    }

    def write(shown: str) -> str:
        if not is_folder(told[shown]):
            made.add(shown)
        write_bytes(join(mine[shown], "driver"), content)
        return ""

    def clear(shown: str) -> str:
        remove_tree(mine[shown])
        if shown in made:
            remove_empty_folder(told[shown])
        return ""

    def each(action: Callable[[str], str], chosen: Iterable[str]) -> dict[str, str]:
        return _all_within({shown: partial(action, shown) for shown in chosen}, seconds)

    problems = {shown: redacted_url(text) for shown, text in each(write, mine).items()}
    written = [shown for shown in mine if not problems[shown]]
    try:
        # Writable folder -> URL without secrets; URL -> problem, "" if none.
        yield {mine[shown]: shown for shown in written}, problems
    finally:
        each(clear, written)


def write_beside(folder: str, name: str) -> str:
    """Copy the driver's file to `name`, in a task; return "" on success."""
    write_bytes(join(folder, name), read_bytes(join(folder, "driver")))
    return ""


def read_back(
    folders: Mapping[str, str],
    answers: list[dict[str, Any]],
    problems: dict[str, str],
    seconds: float,
) -> None:
    """Check that the driver can read the executors' files."""

    def read(file: str) -> str:
        read_bytes(file)
        return ""

    written = {
        join(folder, file_of(answer["executor"])): (shown, answer["label"])
        for folder, shown in folders.items()
        for answer in answers
        if answer["place"].get("files", {}).get(shown) == ""
    }
    found = _all_within({file: partial(read, file) for file in written}, seconds)
    for file, problem in found.items():
        shown, label = written[file]
        if problem and not problems[shown]:
            problems[shown] = f"the file that {label} wrote is not here: {redacted_url(problem)}"


def _all_within(actions: dict[str, Callable[[], str]], seconds: float) -> dict[str, str]:
    return all_within(actions, seconds, f"no answer within {seconds:g} s")
