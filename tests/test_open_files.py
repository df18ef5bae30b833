import errno
import os
import socket
import subprocess
import sys
import tempfile
import threading
from types import SimpleNamespace

import pytest
from tests.cases import cases

from sparkwright._open_files import OutOfFiles, await_free_file, out_of_files
from sparkwright.cluster import jobs
from sparkwright.errors import ConfigurationError

LIMITED = """
import resource
from sparkwright._open_files import ensure_open_files, open_files
soft = open_files() + 5
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, soft + {more}))
ensure_open_files(64)
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - soft)
"""


@cases(
    "more, ends", (100, "59"), (10, "Raise it: `ulimit -n 4096` before Python or JupyterLab starts")
)
def test_limit_is_raised_or_the_error_names_it(more, ends):
    command = [sys.executable, "-c", LIMITED.format(more=more)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ends in (done.stdout or done.stderr.splitlines()[-1])
    assert (done.returncode == 0) == (more == 100)


def test_error_of_a_job_names_the_limit_even_if_its_thread_cannot_start(monkeypatch):
    """PySpark asks Spark for local properties before it calls what the thread is for."""

    def thread(target, _):
        def failing():
            try:
                raise OSError(errno.EMFILE, "Too many open files")
            except OSError as error:
                raise ConnectionError("no connection to Java") from error

        return threading.Thread(target=failing)

    monkeypatch.setattr(jobs, "inheriting_thread", thread)
    ended = []
    spark = SimpleNamespace(sparkContext=None)
    job = jobs.SparkJob(spark, lambda: None, description="count", ended=ended.append)
    job._thread.join(10)
    assert ended == [job]
    assert isinstance(job.error, ConfigurationError)
    assert "Received: Too many open files" in str(job.error)


def test_sockets_of_pyspark_are_recognized_by_their_text(monkeypatch):
    full = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    monkeypatch.setattr(socket, "socket", failing(full))
    with pytest.raises(Exception, match=r"sockfile|CANNOT_OPEN_SOCKET") as caught:
        jobs._elements_from((4040, "secret"), None)
    assert isinstance(out_of_files(caught.value), OutOfFiles)


def test_other_errors_are_not_blamed_on_the_limit():
    assert out_of_files(OSError(errno.ENOSPC, "No space left on device")) is None


def test_wait_for_a_free_file_ends(monkeypatch):
    assert await_free_file(5, threading.Event())
    monkeypatch.setattr(tempfile, "TemporaryFile", failing(OSError(errno.EMFILE, "Too many")))
    assert not await_free_file(0.3, threading.Event())
    stopping = threading.Event()
    stopping.set()
    assert not await_free_file(60, stopping)


def failing(error):
    """A function that raises `error`."""

    def fail(*_, **__):
        raise error

    return fail
