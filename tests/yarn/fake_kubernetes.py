"""An API server that takes pods and never runs them; it remembers what it was sent."""

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


class FakeKubernetes:
    """Just enough of Kubernetes for Spark's scheduler, over plain HTTP on loopback."""

    def __init__(self):
        self.posted = []
        self.ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def master(self):
        """For `start_spark(master=…)`."""
        return f"k8s://http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def pods(self):
        return [made for path, made in self.posted if path.endswith("/pods")]

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._server.shutdown()
        self._server.server_close()


def _handler(fake):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            url = urlsplit(self.path)
            query = parse_qs(url.query)
            if self.headers.get("Upgrade", "").lower() == "websocket":
                # No such thing here: the client watches over plain HTTP then.
                self._answer({"kind": "Status", "apiVersion": "v1"})
                return
            if query.get("watch") == ["true"]:
                # Nothing ever happens: the answer's head, and then silence.
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.flush()
                fake.ended.wait(60)
                return
            kind = {"pods": "PodList", "configmaps": "ConfigMapList"}.get(
                url.path.rpartition("/")[2], "List"
            )
            self._answer({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": []})

        def do_POST(self):
            made = self._body()
            made.setdefault("metadata", {})["uid"] = str(uuid.uuid4())
            fake.posted.append((urlsplit(self.path).path, made))
            self._answer(made, 201)

        def do_DELETE(self):
            self._body()
            self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

        def _body(self):
            text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            return json.loads(text) if text else {}

        def _answer(self, made, status=200):
            text = json.dumps(made).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format, *args):
            del format, args

    return Handler
