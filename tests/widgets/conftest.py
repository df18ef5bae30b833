import shutil
import subprocess

import ipywidgets
import pytest
from comm.base_comm import BaseComm
from tests.widgets import fake_run

from sparkwright.networks import keras_catalog


@pytest.fixture(scope="session")
def fake():
    """The module of test doubles."""
    return fake_run


@pytest.fixture
def run(fake):
    return fake.FakeRun()


@pytest.fixture
def sharing_run(fake):
    return fake.FakeRun(sharing=True)


@pytest.fixture
def node():
    """`node(path)` runs the tests of an ES module under Node.js; skips where that is missing."""
    found = shutil.which("node")
    if found is None:
        pytest.skip("Node.js is not installed: `node --test` checks the widgets' JavaScript")

    def run(path):
        done = subprocess.run(
            [found, "--test", str(path)], capture_output=True, text=True, check=False, timeout=120
        )
        assert done.returncode == 0, done.stdout + done.stderr

    return run


class RecordingComm(BaseComm):
    """Stands for the browser: keeps what was sent, and can send messages back."""

    def __init__(self, *args, **kwargs):
        self.sent = []
        super().__init__(*args, **kwargs)

    def publish_msg(self, msg_type, data=None, metadata=None, buffers=None, **keys):
        self.sent.append((msg_type, data, buffers))

    def custom_messages(self, *, heartbeats=False):
        return [
            (data["content"], buffers[0] if buffers else b"")
            for msg_type, data, buffers in list(self.sent)
            if msg_type == "comm_msg" and data.get("method") == "custom"
            if heartbeats or data["content"] != {"kind": "alive"}
        ]

    def receive(self, content):
        data = {"method": "custom", "content": content}
        self.handle_msg({"content": {"data": data}, "buffers": []})


@pytest.fixture(scope="session")
def keras_loaded():
    """Keras is loaded, so that builders show shapes at once."""
    keras_catalog.load()


@pytest.fixture
def comms(monkeypatch):
    """Widgets made in the test get recording comms and are closed afterwards."""
    created = []

    def create_comm(*args, **kwargs):
        created.append(RecordingComm(*args, **kwargs))
        return created[-1]

    monkeypatch.setattr(ipywidgets.widgets.widget.comm, "create_comm", create_comm)
    yield created
    ipywidgets.Widget.close_all()
