"""A server of Spark Connect with executors of its own, for tests."""

import os
import sys
from pathlib import Path

import psutil
from tests.support.sandbox import Sandbox, free_port


class ConnectServer(Sandbox):
    """A Spark Connect server whose executors have one core each.

    Attributes:
        url: for `SparkSession.builder.remote`, once started.
    """

    def __init__(self, *, executors=2):
        """Prepare a server with `executors` executors; default 2."""
        super().__init__("connect")
        self.url = ""
        self._executors = executors

    @property
    def process(self):
        """The server's JVM."""
        return psutil.Process(self._server.pid)

    def restart(self):
        """End the server, which forgets all sessions, and start it again on its port."""
        self._server.kill()
        self._listen()

    def _listen(self):
        self._server.start(*self._how)
        self._server.wait_until(
            lambda: "Connect server started" in self._server.written(),
            what="listening",
            timeout_s=120,
        )

    def _start(self, keeper):
        import pyspark

        home, port = Path(pyspark.__path__[0]), free_port()
        command = [
            str(home / "bin" / "spark-submit"),
            *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
            *("--master", f"local-cluster[{self._executors},1,1024]"),
            *("--conf", f"spark.connect.grpc.binding.port={port}"),
            *("--conf", "spark.ui.enabled=false"),
            *("--conf", f"spark.sql.warehouse.dir={self.folder}"),
            "spark-internal",
        ]
        self._server = self._add_server("Spark Connect server", keeper)
        environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
        self._how = command, environment
        self._listen()
        self.url = f"sc://127.0.0.1:{port}"
