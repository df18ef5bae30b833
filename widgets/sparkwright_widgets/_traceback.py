"""Find the user's code in the tracebacks of workers. Pure."""

import re
from typing import NamedTuple

from ._format import plain

_FRAME = re.compile(r'^\s*File "(?P<file>[^"\n]+)", line (?P<line>\d+), in (?P<name>.+)$')
# Installed packages, the standard library, this kit, and code without a file.
_NOT_THE_USERS = re.compile(
    r"site-packages|dist-packages|[/\\]lib(?:64)?[/\\]python\d|[/\\]sparkwright(?:_widgets)?[/\\]"
    r"|^<(?:frozen|string|__array_function__)|\.zip[/\\]|[/\\]pyspark[/\\]"
)


class Frame(NamedTuple):
    """A frame of a traceback: its location, and its source lines."""

    head: str
    source: tuple[str, ...]


def users_frames(text: str, *, most: int = 3) -> list[Frame]:
    r"""Return the last frames in the user's files, innermost first.

    Args:
        text: one or more tracebacks; terminal colors are removed.
        most: maximum number of frames; default 3.

    Example:
        >>> text = 'File "/usr/lib/python3.11/queue.py", line 1, in get\n  pass\n' + \
        ...     '\x1b[1mFile "/home/ann/layers.py", line 7, in call\x1b[0m\n    return 1 / 0\n'
        >>> users_frames(text)
        [Frame(head='File "/home/ann/layers.py", line 7, in call', source=('return 1 / 0',))]
    """
    found: list[Frame] = []
    lines = plain(text).splitlines()
    for place, line in enumerate(lines):
        match = _FRAME.match(line)
        if match is None or _NOT_THE_USERS.search(match["file"]):
            continue
        indent = len(line) - len(line.lstrip())
        source: list[str] = []
        for follower in lines[place + 1 :]:
            if len(follower) - len(follower.lstrip()) <= indent or _FRAME.match(follower):
                break
            if set(follower.strip()) - set("~^ "):  # not the marks below a line
                source.append(follower.strip())
        frame = Frame(line.strip(), tuple(source[:2]))
        if frame not in found:
            found.append(frame)
    return found[-most:][::-1]


def users_code(text: str) -> str:
    """Format `users_frames` as text; empty if no frame is in the user's code."""
    return "\n".join(
        "\n".join([frame.head, *(f"    {line}" for line in frame.source)])
        for frame in users_frames(text)
    )
