"""A real YARN on this machine, on top of an HDFS: a ResourceManager and NodeManagers."""

import contextlib
import getpass
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.support.hadoop import (
    LOG_SETTINGS,
    as_xml,
    java,
    manager_settings,
    node_settings,
    scheduler_settings,
    yarn_jars,
)
from tests.support.hdfs import HdfsCluster
from tests.support.sandbox import SHORT_LIVED, Keeper, Sandbox, ServerProcess, fetched, free_port

from sparkwright.errors import ConfigurationError, RunTimeoutError, SparkwrightError
from sparkwright.spark._defaults import spark_home

_RESOURCEMANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODEMANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_MEMORY = "-Xmx384m"
_SERVICES = ("", "scheduler", "resource-tracker", "admin", "webapp")
_PORT_ATTEMPTS = 5
_LOOK_AGAIN_S = 0.2
_LISTENS = "IPC Server listener on {port}: starting"


class YarnCluster(Sandbox):
    """A ResourceManager and NodeManagers of their own, for tests and for trying things.

    They listen on loopback, keep everything in one temporary folder, and end with this process,
    however it ends. Containers are processes of this user, and are ended when they take more memory
    than they were given.

    Attributes:
        folder: for everything; it exists while the cluster runs.
        hdfs: the file system below.

    Example:
        with YarnCluster() as yarn:
            os.environ["HADOOP_CONF_DIR"] = str(yarn.configuration_folder)
            spark = sw.start_spark(master="yarn", settings=yarn.driver_settings)
    """

    def __init__(
        self,
        *,
        hdfs: HdfsCluster | None = None,
        memory_mb: Sequence[int] = (4096, 4096),
        cores: int = 4,
        labels: Mapping[int, str] | None = None,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        """Describe it; `start` or `with` starts it.

        Args:
            hdfs: one that runs, and must outlive this; default None: one of its own with a single
                DataNode.
            memory_mb: what each NodeManager gives containers, MiB; default two of 4 GiB. Nothing
                is reserved.
            cores: that each NodeManager gives containers; default 4.
            labels: of machines, by the NodeManager's number from 0; default none.
            settings: of YARN, for all processes and clients, over the defaults of this class.
            timeout_s: how long each wait for a process may take, in seconds; default 120.

        Raises:
            ConfigurationError: if there is no NodeManager, or a label is for none.
        """
        self._labels = dict(labels or {})
        if not memory_mb or not set(self._labels) <= set(range(len(memory_mb))):
            raise ConfigurationError(
                "a cluster needs NodeManagers, and labels are for these. Received: "
                f"memory_mb={list(memory_mb)!r}, labels={self._labels!r}."
            )
        super().__init__("yarn")
        self._own_hdfs = hdfs is None
        self.hdfs = HdfsCluster(datanodes=1, replication=1) if hdfs is None else hdfs
        self._memory_mb, self._cores = tuple(memory_mb), cores
        self._settings, self._timeout_s = dict(settings or {}), timeout_s
        self._ports: dict[str, int] = {}
        self._nodemanagers: list[ServerProcess] = []
        self._resourcemanager: ServerProcess | None = None
        self._classpath = ""

    def close(self) -> None:
        """End all processes, containers included, and remove the folder; nothing if none run."""
        super().close()
        if self._own_hdfs:
            self.hdfs.close()

    # -- what is where --------------------------------------------------------------------------

    @property
    def configuration_folder(self) -> Path:
        """For HADOOP_CONF_DIR: names this YARN and its HDFS."""
        return self.folder / "client"

    @property
    def logs(self) -> Path:
        """The folder of the servers' logs; those of containers lie in `node-N/logs` beside it."""
        return self.folder / "logs"

    @property
    def driver_settings(self) -> dict[str, str]:
        """Settings for a driver in this process: its address, this Python, and these jars.

        All machines are this one, so nothing needs to be sent to them.
        """
        home = quote(str(spark_home()))  # of a folder's name, spaces may be part
        return {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.yarn.jars": f"local:{home}/jars/*",
            "spark.pyspark.python": sys.executable,
            "spark.yarn.am.memory": "384m",
            "spark.yarn.am.memoryOverhead": "256m",
            "spark.yarn.am.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }

    @property
    def metrics(self) -> dict[str, Any]:
        """What the ResourceManager counts: activeNodes, containersAllocated and more."""
        return self._asked("cluster/metrics")["clusterMetrics"]

    @property
    def applications(self) -> list[dict[str, Any]]:
        """All applications that the ResourceManager remembers: id, state, finalStatus and more."""
        return (self._asked("cluster/apps").get("apps") or {}).get("app", [])

    @property
    def nodes(self) -> list[dict[str, Any]]:
        """All NodeManagers: id, state, nodeLabels, numContainers and more."""
        return (self._asked("cluster/nodes").get("nodes") or {}).get("node", [])

    # -- faults ---------------------------------------------------------------------------------

    def kill_nodemanager(self, number: int) -> None:
        """End a NodeManager at once; its containers go on until they notice.

        Args:
            number: from 0.
        """
        self._nodemanagers[number].kill()

    # -- starting -------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._classpath = os.pathsep.join(str(jar) for jar in yarn_jars())

    def _start(self, keeper: Keeper) -> None:
        if self._own_hdfs:
            self.hdfs.start()
        self.logs.mkdir()
        self._resourcemanager = self._add_server("ResourceManager", keeper, logs=self.logs)
        self._nodemanagers = [
            self._add_server(f"NodeManager {number}", keeper, logs=self.logs)
            for number in range(len(self._memory_mb))
        ]
        for attempt in range(_PORT_ATTEMPTS):
            self._ports = {service: free_port() for service in _SERVICES}
            self._write_settings()
            self._run(self._resourcemanager, "resourcemanager", _RESOURCEMANAGER)
            try:
                self._wait_for_manager()
            except SparkwrightError:
                if (
                    "BindException" not in self._resourcemanager.written()
                    or attempt == _PORT_ATTEMPTS - 1
                ):
                    raise
                self._resourcemanager.kill()
            else:
                break
        if self._labels:
            names = [
                {"name": name, "exclusivity": True} for name in sorted(set(self._labels.values()))
            ]
            self._asked("cluster/add-node-labels", {"nodeLabelInfo": names})
        for number, server in enumerate(self._nodemanagers):
            self._run(server, f"node-{number}-settings", _NODEMANAGER)
        self._wait_for_nodes(len(self._nodemanagers))

    def _end(self, keeper: Keeper) -> None:
        self._resourcemanager, self._nodemanagers = None, []

    def _write_settings(self) -> None:
        shared = _settings_of(self.hdfs.configuration_folder / "core-site.xml")
        shared |= manager_settings(
            ports=self._ports, folder=str(self.folder), memory_mb=max(self._memory_mb)
        )
        shared |= self._settings
        folders = {"resourcemanager": shared, "client": shared}
        for number, memory_mb in enumerate(self._memory_mb):
            own = node_settings(
                folder=str(self.folder / f"node-{number}"),
                memory_mb=memory_mb,
                cores=self._cores,
                label=self._labels.get(number),
            )
            folders[f"node-{number}-settings"] = shared | own | self._settings
        for name, values in folders.items():
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            for file in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
                (folder / file).write_text(as_xml(values))
            if name != "client":
                (folder / "log4j2.properties").write_text(LOG_SETTINGS)
        queues = scheduler_settings(sorted(set(self._labels.values())))
        (self.folder / "resourcemanager" / "capacity-scheduler.xml").write_text(as_xml(queues))

    def _run(self, server: ServerProcess, settings: str, kind: str) -> None:
        path = f"{self.folder / settings}{os.pathsep}{self._classpath}"
        user = f"-DHADOOP_USER_NAME={getpass.getuser()}"
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("HADOOP_", "YARN_", "SPARK_"))
        }
        # Containers start Java as $JAVA_HOME/bin/java.
        inherited["JAVA_HOME"] = str(Path(os.path.realpath(java())).parents[1])
        server.start([java(), *SHORT_LIVED, _MEMORY, user, "-cp", path, kind], inherited)

    def _wait_for_manager(self) -> None:
        manager = self._the_resourcemanager()
        manager.wait_until(
            lambda: "Transitioned to active state" in manager.written() and self._answers(),
            what="listening",
            timeout_s=self._timeout_s,
        )

    def _wait_for_nodes(self, count: int) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        for server in self._nodemanagers:
            server.wait_until(
                lambda server=server: "Registered with ResourceManager" in server.written(),
                what="registering with the ResourceManager",
                timeout_s=max(1.0, deadline_s - time.monotonic()),
            )
        self._the_resourcemanager().wait_until(
            lambda: self.metrics["activeNodes"] == count,
            what=f"having {count} NodeManagers",
            timeout_s=max(1.0, deadline_s - time.monotonic()),
        )

    def _answers(self) -> bool:
        with contextlib.suppress(RunTimeoutError):
            return bool(self.metrics)
        return False

    def _asked(self, path: str, body: Any = None) -> dict[str, Any]:
        """What the ResourceManager's web services answer.

        Raises:
            RunTimeoutError: if they do not.
        """
        url = f"http://127.0.0.1:{self._ports['webapp']}/ws/v1/{path}"
        json_body = None if body is None else json.dumps(body).encode()
        try:
            text = fetched(url, timeout_s=self._timeout_s, json_body=json_body)
        except OSError as error:
            raise RunTimeoutError(
                f"The cluster for tests asked its ResourceManager for {path}, in vain: {error}. "
                f"Logs: {self.logs}"
            ) from None
        return json.loads(text) if text.startswith(b"{") else {}

    def _the_resourcemanager(self) -> ServerProcess:
        return self._started(self._resourcemanager)


def _settings_of(file: Path) -> dict[str, str]:
    from xml.etree import ElementTree

    found = ElementTree.parse(file).getroot().iter("property")
    return {one.findtext("name", ""): one.findtext("value", "") for one in found}
