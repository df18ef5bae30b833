"""What HDFS and its client say, as errors of this process that name a remedy. Pure."""

import re

from sparkwright.errors import NetworkError, RunTimeoutError

# The client passes on the server's exception as text: RPCError("class", "message\n\tat …").
_REMOTE = re.compile(r'RPCError\("([\w.$]+)", "(.*)"\)', re.DOTALL)
_OWN = re.compile(r'(\w+)\("(.*)"\)', re.DOTALL)
_ESCAPE = re.compile(r"\\u\{([0-9a-f]+)\}|\\(.)", re.DOTALL)
_PLAIN = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
# Standing for a host that cannot be reached, in the words of the systems' libraries.
_CONNECTION = (
    *("connection", "failed to lookup", "no route", "timed out", "unreachable", "eof"),
    *("broken pipe", "refused", "reset by peer"),
)

_KINDS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "FileAlreadyExistsException": FileExistsError,
    "AccessControlException": PermissionError,
    "AuthorizationException": PermissionError,
    "ParentNotDirectoryException": NotADirectoryError,
    "PathIsNotDirectoryException": NotADirectoryError,
    "StandbyException": NetworkError,
}
_REMEDIES = {
    "AccessControlException": (
        "Act as another user with the environment variable HADOOP_USER_NAME (without Kerberos), "
        "or have the path's owner permit it."
    ),
    "SafeModeException": (
        "Wait until the NameNode has heard of all blocks, or, if it was turned on by hand, end it "
        "with: hdfs dfsadmin -safemode leave."
    ),
    "DSQuotaExceededException": "Remove files there, or have the administrator raise the quota.",
    "NSQuotaExceededException": "Remove files there, or have the administrator raise the quota.",
    "StandbyException": (
        "Use the name of the nameservice instead of a host, with HADOOP_CONF_DIR set."
    ),
    "InvalidPathException": 'Names in HDFS have no ":" and no empty parts.',
    "AlreadyBeingCreatedException": "Another writer has the file open; wait for its end.",
}
_NO_HOST = (
    "Name the NameNode's host and port, as in hdfs://namenode:8020/path, or set HADOOP_CONF_DIR to "
    "a folder with core-site.xml and hdfs-site.xml."
)


def as_os_error(error: BaseException, *, server: str) -> OSError:
    """The error to raise instead of what the client raised: one sentence, its kind, a remedy.

    Args:
        error: of the client, whose text may hold a traceback of the server's.
        server: what was asked, such as "hdfs://namenode:8020", for messages.
    """
    text = str(error)
    if remote := _REMOTE.fullmatch(text):
        name = remote[1].rpartition(".")[2]
        message = _first_lines(_unescaped(remote[2]))
        remedy = _REMEDIES.get(name, "")
        kind = _KINDS.get(name, OSError)
        return kind(f"{_sentence(message or name)} {remedy}".rstrip())
    if isinstance(error, OSError) and "\n\tat " in text:
        message = _first_lines(text)
        kind = IsADirectoryError if message.startswith("Path is not a file") else type(error)
        return kind(_sentence(message))
    if isinstance(error, FileNotFoundError | FileExistsError):
        return error
    if own := _OWN.fullmatch(text):
        text = f"{own[1]}: {_unescaped(own[2])}"
        if own[1] == "InvalidArgument":
            return OSError(f"{server} names no NameNode ({_unescaped(own[2])}). {_NO_HOST}")
    if any(word in text.lower() for word in _CONNECTION):
        return NetworkError(
            f"{server} cannot be reached ({_first_lines(text)}). Check the host and the port, and "
            "that its NameNode and DataNodes run."
        )
    return OSError(f"HDFS at {server} failed: {_first_lines(text)}")


def timed_out(what: str, *, server: str, timeout_s: float) -> RunTimeoutError:
    """The error for a call that was given up.

    Args:
        what: was to be done.
        server: as in `as_os_error`.
        timeout_s: the limit.
    """
    return RunTimeoutError(
        f"Waited {timeout_s:g} s for {server} to {what}. Check that its NameNode and DataNodes run "
        "and can be reached; the environment variable FSSPEC_HDFS_TIMEOUT_S sets another limit."
    )


def _first_lines(text: str) -> str:
    """The message without the server's traceback, in one line."""
    return " ".join(text.partition("\n\tat ")[0].split())


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!")) else f"{text}."


def _unescaped(text: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return chr(int(found[1], 16))
        return _PLAIN.get(found[2], found[2])

    return _ESCAPE.sub(plain, text)
