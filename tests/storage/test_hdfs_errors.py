import threading

import pytest
from tests.cases import cases

from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError
from sparkwright.storage._hdfs_client import as_os_error, open_reader, open_writer, within

SERVER = "hdfs://namenode:8020"
TRACE = r"\n\tat org.apache.hadoop.A.b(A.java:1)\n\tat java.base/c.d(E.java:2)\n"


def remote(kind, message):
    return RuntimeError(f'RPCError("org.apache.hadoop.{kind}", "{message}{TRACE}")')


@cases(
    "error, kind, texts",
    (
        remote("security.AccessControlException", r"Permission denied: inode=\"/a\""),
        *(PermissionError, ['Permission denied: inode="/a".', "HADOOP_USER_NAME"]),
    ),
    (
        remote("hdfs.server.namenode.SafeModeException", r"In safe mode.\nTurned on."),
        *(OSError, ["In safe mode. Turned on. Wait until", "hdfs dfsadmin -safemode leave"]),
    ),
    (
        remote("hdfs.protocol.DSQuotaExceededException", "quota = 3000 B"),
        *(OSError, ["quota = 3000 B.", "larger quota"]),
    ),
    (remote("fs.FileAlreadyExistsException", "/a exists"), FileExistsError, ["/a exists."]),
    (remote("fs.ParentNotDirectoryException", "/a"), NotADirectoryError, ["/a."]),
    (remote("ipc.StandbyException", "standby"), NetworkError, ["nameservice"]),
    (remote("x.StrangeException", r"f\u{fc}nf \\ \t6"), OSError, ["fünf \\ 6."]),
    (remote("x.StrangeException", ""), OSError, ["StrangeException."]),
    (
        FileNotFoundError("Path is not a file: /a\n\tat org.A.b(A.java)"),
        *(IsADirectoryError, ["Path is not a file: /a."]),
    ),
    (FileExistsError("/a exists\n\tat org.A.b(A.java)"), FileExistsError, ["/a exists."]),
    (FileNotFoundError("/a"), FileNotFoundError, ["/a"]),
    (
        OSError("Connection refused (os error 111)"),
        *(NetworkError, [f"{SERVER} cannot be reached (Connection refused (os error 111))."]),
    ),
    (
        RuntimeError('InvalidArgument("No NameNode hosts found")'),
        *(OSError, [f"{SERVER} does not name a NameNode", "HADOOP_CONF_DIR"]),
    ),
    (
        RuntimeError(
            'GSSAPIError(GssMajorCodes { routine_error: "GSS_S_FAILURE" }, 2529638944, '
            '"Unspecified GSS failure. Minor code may provide more: Ticket expired")'
        ),
        *(PermissionError, ["a valid Kerberos ticket. Received: Ticket expired. Run kinit"]),
    ),
    (
        RuntimeError("RPC listener disconnected"),
        *(NetworkError, [f"{SERVER} closed the connection", "authentication=kerberos"]),
    ),
    (RuntimeError('Other("a \\"b\\"")'), OSError, [f'HDFS at {SERVER} failed: Other: a "b"']),
)
def test_errors_have_a_type_and_one_line_without_a_java_traceback(error, kind, texts):
    found = as_os_error(error, server=SERVER)
    assert type(found) is kind
    assert "\n" not in str(found)
    assert ".java" not in str(found)
    for text in texts:
        assert text in str(found)


def test_hanging_call_times_out_and_the_next_one_works():
    never = threading.Event()
    try:
        for _ in range(3):
            with pytest.raises(RunTimeoutError, match=r"Waited 0\.01 s for hdfs.* to list /a"):
                within(0.01, never.wait, what="list /a", server=SERVER)
            assert within(60.0, lambda: 5, what="add", server=SERVER) == 5
    finally:
        never.set()


def test_programming_and_configuration_errors_are_unchanged():
    def fail(error):
        raise error

    for error in (TypeError("x"), ConfigurationError("y"), KeyError("z")):
        with pytest.raises(type(error)) as raised:
            within(60.0, lambda e=error: fail(e), what="try", server=SERVER)
        assert raised.value is error
    with pytest.raises(OSError, match=r"HDFS at .* failed: z"):
        within(60.0, lambda: fail(RuntimeError("z")), what="try", server=SERVER)


class Inner:
    """A file of the client: of its reads, those in `bad` fail; what is written is kept."""

    def __init__(self, content=b"", bad=()):
        self.content, self.bad, self.reads = content, bad, 0
        self.closed = False

    def file_length(self):
        return len(self.content)

    def read_range(self, start, size):
        self.reads += 1
        if self.reads in self.bad:
            raise OSError("a DataNode is gone")
        return self.content[start : start + size]

    def write(self, content):
        self.reads += 1
        if self.reads in self.bad:
            raise OSError("no DataNode is left")
        self.content += content
        return len(content)

    def close(self):
        self.closed = True


def call(function, _):
    return function()


def test_failed_read_is_retried_with_a_reopened_file():
    content = bytes(range(256)) * 40_000
    inner, opened = Inner(content, bad=(2, 4)), []

    def open_inner():
        opened.append(1)
        return inner

    with open_reader(open_inner, call, "/a") as file:
        assert file.read(300_000) + file.read() == content
    assert len(opened) == 3
    inner = Inner(content, bad=(1, 2))
    with open_reader(open_inner, call, "/a") as file, pytest.raises(OSError, match="is gone"):
        file.read(10)


def test_file_replaced_during_a_read_is_never_a_mixture():
    old, new = Inner(b"A" * (12 << 20), bad=(2,)), Inner(b"B" * (12 << 20))
    files, versions = [old, new], [1, 2]
    with (
        open_reader(lambda: files.pop(0), call, "/a", lambda: versions.pop(0)) as file,
        pytest.raises(OSError, match="was replaced while it was read"),
    ):
        file.read()


def test_small_sequential_reads_are_buffered():
    inner = Inner(bytes(20 << 20))
    with open_reader(lambda: inner, call, "/a") as file:
        while file.read(1000):
            pass
    assert inner.reads <= 7


def test_file_shorter_than_declared_and_seeking_before_the_start_raise():
    short = Inner(b"abc")
    short.file_length = lambda: 4
    with open_reader(lambda: short, call, "/a") as file:
        with pytest.raises(ValueError, match="at least 0"):
            file.seek(-5, 2)
        assert file.seek(10) == 10
        assert file.read() == b""
        file.seek(0)
        with pytest.raises(OSError, match="4"):
            file.read()


def test_failed_write_leaves_no_finished_file_and_keeps_the_first_error():
    inner = Inner(bad=(2,))

    def write():
        with open_writer(lambda: inner, call, "/a") as file:
            for _ in range(3):
                file.write(bytes(5 << 20))

    with pytest.raises(OSError, match="no DataNode is left"):
        write()
    assert not inner.closed
    whole = Inner()
    with open_writer(lambda: whole, call, "/a") as file:
        file.write(b"ab")
        file.write(b"c")
        assert file.tell() == 3
    assert whole.closed
    assert whole.content == b"abc"
