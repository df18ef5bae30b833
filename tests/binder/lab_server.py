"""Executes notebooks as JupyterLab does: through a server, over HTTP and a WebSocket."""

import json
import secrets
import socket
import subprocess
import time
import uuid

import requests
import websocket

_START_TIMEOUT_S = 120.0
_REQUEST_TIMEOUT_S = 60.0


class CellError(Exception):
    """A cell raised, or the kernel died."""


class LabServer:
    """A running `jupyter lab`."""

    def __init__(self, command, *, folder, environment, log):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self._token, self._log = secrets.token_hex(16), log
        self._url = f"http://127.0.0.1:{port}"
        options = [
            *("--no-browser", "--allow-root", "--ip=127.0.0.1", f"--port={port}"),
            *("--ServerApp.port_retries=0", f"--IdentityProvider.token={self._token}"),
            *("--ServerApp.root_dir", str(folder)),
        ]
        with log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*map(str, command), *options],
                cwd=folder,
                env=environment,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self):
        end_s = time.monotonic() + _START_TIMEOUT_S
        while True:
            try:
                self._request("GET", "/api/status")
            except requests.ConnectionError:
                if self.process.poll() is not None or time.monotonic() > end_s:
                    self._end()
                    raise RuntimeError(f"no server has started:\n{self.log_text}") from None
                self._wait_a_little()
            else:
                return self

    def __exit__(self, *_):
        try:
            for session in self._request("GET", "/api/sessions"):
                self._request("DELETE", f"/api/sessions/{session['id']}")
        finally:
            self._end()

    @property
    def log_text(self):
        """The end of what the server, its kernels and their children wrote."""
        return self._log.read_text(errors="replace")[-8000:]

    def execute(self, notebook, sources, *, timeout_s):
        """Start a kernel for a notebook and execute cells in it, one by one."""
        session = self._request(
            "POST",
            "/api/sessions",
            {"path": notebook, "name": "", "type": "notebook", "kernel": {"name": "python3"}},
        )
        address = self._url.replace("http", "ws", 1)
        channel = websocket.create_connection(
            f"{address}/api/kernels/{session['kernel']['id']}/channels",
            header=[f"Authorization: token {self._token}"],
            timeout=_REQUEST_TIMEOUT_S,
        )
        end_s = time.monotonic() + timeout_s
        try:
            for source in sources:
                _execute(channel, source, end_s)
        finally:
            channel.close()

    def _request(self, method, path, content=None):
        answer = requests.request(
            method,
            self._url + path,
            headers={"Authorization": f"token {self._token}"},
            json=content,
            timeout=_REQUEST_TIMEOUT_S,
        )
        answer.raise_for_status()
        return answer.json() if answer.content else None

    def _wait_a_little(self):
        try:
            self.process.wait(0.1)
        except subprocess.TimeoutExpired:
            return

    def _end(self):
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def _execute(channel, source, end_s):
    message_id = uuid.uuid4().hex
    header = {
        "msg_id": message_id,
        "msg_type": "execute_request",
        "session": "replay",
        "username": "",
        "version": "5.3",
    }
    content = {"code": source, "silent": False, "store_history": True, "allow_stdin": False}
    request = {"channel": "shell", "header": header, "content": content}
    channel.send(json.dumps({**request, "parent_header": {}, "metadata": {}}))
    has_replied = is_idle = False
    while not (has_replied and is_idle):
        message = _receive(channel, end_s)
        kind, content = message["msg_type"], message["content"]
        if kind == "status" and content["execution_state"] in ("restarting", "dead"):
            raise CellError(f"the kernel died in this cell:\n{source}")
        if message["parent_header"].get("msg_id") != message_id:
            continue
        is_idle = is_idle or (kind == "status" and content["execution_state"] == "idle")
        has_replied = has_replied or kind == "execute_reply"
        if kind == "error":
            raise CellError("\n".join([source, *content["traceback"]]))


def _receive(channel, end_s):
    """The next message in JSON; those with binary parts are widgets' and are left out."""
    while True:
        remaining_s = end_s - time.monotonic()
        if remaining_s <= 0:
            raise TimeoutError("the cells did not end in time")
        channel.settimeout(min(remaining_s, _REQUEST_TIMEOUT_S))
        try:
            received = channel.recv()
        except websocket.WebSocketTimeoutException:
            continue  # a cell that is silent for long
        if isinstance(received, str) and received:
            return json.loads(received)
        if not received:
            raise CellError("the server closed the connection")
