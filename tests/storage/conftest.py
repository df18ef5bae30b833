"""Every kind of store, and one real HDFS for all tests."""

import uuid

import pytest
from tests.storage.stores import new_bucket, shared_hdfs, shared_s3


@pytest.fixture(scope="session")
def hdfs():
    """An HDFS that tests do no harm to."""
    yield shared_hdfs()
    shared_hdfs().close()


@pytest.fixture(
    params=[
        *("file", "path", "memory"),
        *(pytest.param(name, marks=pytest.mark.stores) for name in ("hdfs", "s3")),
    ]
)
def store(request, tmp_path, monkeypatch):
    """The URL of a folder that does not exist yet, in each kind of store."""
    name = f"store {uuid.uuid4().hex[:8]}"
    if request.param == "hdfs":
        return f"{request.getfixturevalue('hdfs').url}/{name}"
    if request.param == "s3":
        _, options, settings = shared_s3()
        monkeypatch.setitem(settings, "s3", options)
        return f"{new_bucket()}/{name}"
    return {
        "file": f"file://{tmp_path}/{name}",
        "path": f"{tmp_path}/{name}",
        "memory": f"memory://{name}",
    }[request.param]
