"""Stores for tests, each started once and when it is first needed."""

import functools
import io
import uuid

import pytest
from tests.support.hdfs import HdfsCluster

from sparkwright.errors import ConfigurationError, NetworkError


class OneWay(io.RawIOBase):
    """A store that takes bytes one after the other."""

    def __init__(self):
        self.content = bytearray()

    def writable(self):
        return True

    def write(self, block):
        self.content += block
        return len(block)


def started_or_skipped(**options):
    """A new cluster; the test is left out without Hadoop's servers, which `.ci/setup test` gets."""
    try:
        return HdfsCluster(**options).start()
    except (ConfigurationError, NetworkError) as error:
        if "Maven" not in str(error):
            raise
        pytest.skip(str(error))


@functools.cache
def shared_hdfs():
    """The cluster of all tests that do it no harm; it ends with the process at the latest."""
    # Blocks of 1 MB: what a test writes has several.
    return started_or_skipped(block_size_bytes=1 << 20)


@functools.cache
def shared_s3():
    """An S3 server on loopback, for this process."""
    import fsspec
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    server.start()
    host, port = server.get_host_and_port()
    options = {"endpoint_url": f"http://{host}:{port}", "key": "test", "secret": "test"}
    return server, options, fsspec.config.conf


def new_bucket():
    """The URL of an empty bucket; `s3` of fsspec's settings must be `shared_s3`'s."""
    import fsspec

    name = f"store-{uuid.uuid4().hex[:8]}"
    fsspec.filesystem("s3").mkdir(name)
    return f"s3://{name}"
