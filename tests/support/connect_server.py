"""A server of Spark Connect with executors of its own, for tests."""

import contextlib
import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

from tests.support.sandbox import Keeper, ServerProcess, free_port


@contextlib.contextmanager
def connect_server(*, executors: int = 2) -> Generator[str]:
    """Start a server whose executors have one core each, and yield its URL.

    Args:
        executors: how many; default 2.
    """
    import pyspark

    home, port = Path(pyspark.__path__[0]), free_port()
    folder = Path(tempfile.mkdtemp(prefix="sparkwright-connect-"))
    command = [
        str(home / "bin" / "spark-submit"),
        *("--class", "org.apache.spark.sql.connect.service.SparkConnectServer"),
        *("--master", f"local-cluster[{executors},1,1024]"),
        *("--conf", f"spark.connect.grpc.binding.port={port}"),
        *("--conf", "spark.ui.enabled=false"),
        *("--conf", f"spark.sql.warehouse.dir={folder}"),
        "spark-internal",
    ]
    environment = {**os.environ, "SPARK_HOME": str(home), "PYSPARK_PYTHON": sys.executable}
    keeper = Keeper(folder)
    try:
        server = ServerProcess("Spark Connect server", folder, keeper)
        server.start(command, environment)
        server.wait_until(
            lambda: "Connect server started" in server.written(),
            what="listening",
            timeout_s=120,
        )
        yield f"sc://127.0.0.1:{port}"
    finally:
        keeper.close()
