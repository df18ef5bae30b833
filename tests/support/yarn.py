"""A real YARN on this machine, on top of an HDFS: a ResourceManager and NodeManagers."""

import contextlib
import json
import os
import sys
import time
from urllib.parse import quote

from tests.support.hadoop import (
    HadoopCluster,
    as_xml,
    manager_settings,
    node_settings,
    scheduler_settings,
    yarn_jars,
)
from tests.support.hdfs import HdfsCluster
from tests.support.sandbox import fetched, free_port

from sparkwright.errors import RunTimeoutError
from sparkwright.spark._java import spark_home

_RESOURCEMANAGER = "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager"
_NODEMANAGER = "org.apache.hadoop.yarn.server.nodemanager.NodeManager"
_SERVICES = ("", "scheduler", "resource-tracker", "admin", "webapp")


class YarnCluster(HadoopCluster):
    """A ResourceManager and NodeManagers of their own, for tests and for trying things.

    They listen on loopback, keep everything in one temporary folder, and end with this process,
    however it ends. Containers are processes of this user, and are ended when they take more memory
    than they were given.

    Example:
        with YarnCluster() as yarn:
            os.environ["HADOOP_CONF_DIR"] = str(yarn.configuration_folder)
            spark = sw.start_spark(master="yarn", settings=yarn.driver_settings)
    """

    def __init__(
        self,
        *,
        hdfs=None,
        memory_mb=(4096, 4096),
        cores=4,
        labels=None,
        settings=None,
        timeout_s=120.0,
    ):
        """Describe it; `start` or `with` starts it.

        `hdfs` must run and outlive this; by default it is one of its own. `memory_mb` is what each
        NodeManager gives containers, `labels` are by its number, and `settings` are over the
        defaults of this class.
        """
        super().__init__("yarn", settings=settings, timeout_s=timeout_s)
        self._labels = dict(labels or {})
        self._own_hdfs = hdfs is None
        self.hdfs = HdfsCluster(datanodes=1, replication=1) if hdfs is None else hdfs
        self._memory_mb, self._cores = tuple(memory_mb), cores
        self._ports = {}
        self._nodemanagers = []
        self._resourcemanager = None

    def close(self):
        """End all processes, containers included, and remove the folder; nothing if none run."""
        super().close()
        if self._own_hdfs:
            self.hdfs.close()

    # -- what is where --------------------------------------------------------------------------

    @property
    def driver_settings(self):
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
    def metrics(self):
        """What the ResourceManager counts: activeNodes, containersAllocated and more."""
        return self._asked("cluster/metrics")["clusterMetrics"]

    @property
    def applications(self):
        """All applications that the ResourceManager remembers: id, state, finalStatus and more."""
        return (self._asked("cluster/apps").get("apps") or {}).get("app", [])

    @property
    def nodes(self):
        """All NodeManagers: id, state, nodeLabels, numContainers and more."""
        return (self._asked("cluster/nodes").get("nodes") or {}).get("node", [])

    # -- starting -------------------------------------------------------------------------------

    def _prepare(self):
        self._classpath = os.pathsep.join(str(jar) for jar in yarn_jars())

    def _start(self, keeper):
        if self._own_hdfs:
            self.hdfs.start()
        self._resourcemanager = self._server("ResourceManager", keeper)
        numbers = range(len(self._memory_mb))
        self._nodemanagers = [self._server(f"NodeManager {number}", keeper) for number in numbers]
        self._start_at_free_ports(self._resourcemanager, self._start_manager)
        if self._labels:
            names = [
                {"name": name, "exclusivity": True} for name in sorted(set(self._labels.values()))
            ]
            self._asked("cluster/add-node-labels", {"nodeLabelInfo": names})
        for number, server in enumerate(self._nodemanagers):
            server.start(self._java(f"node-{number}-settings", _NODEMANAGER), self._environment())
        self._wait_for_nodes(len(self._nodemanagers))

    def _end(self, keeper):
        self._resourcemanager, self._nodemanagers = None, []

    def _start_manager(self):
        self._ports = {service: free_port() for service in _SERVICES}
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
        self._write_settings(folders)
        # Drivers log as they like.
        (self.configuration_folder / "log4j2.properties").unlink()
        queues = scheduler_settings(sorted(set(self._labels.values())))
        (self.folder / "resourcemanager" / "capacity-scheduler.xml").write_text(as_xml(queues))
        manager = self._the_resourcemanager()
        manager.start(self._java("resourcemanager", _RESOURCEMANAGER), self._environment())
        manager.wait_until(
            lambda: "Transitioned to active state" in manager.written() and self._answers(),
            what="listening",
            timeout_s=self._timeout_s,
        )

    def _wait_for_nodes(self, count):
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

    def _answers(self):
        with contextlib.suppress(RunTimeoutError):
            return bool(self.metrics)
        return False

    def _asked(self, path, body=None):
        """What the ResourceManager's web services answer."""
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

    def _the_resourcemanager(self):
        return self._started(self._resourcemanager)


def _settings_of(file):
    from xml.etree import ElementTree

    found = ElementTree.parse(file).getroot().iter("property")
    return {one.findtext("name", ""): one.findtext("value", "") for one in found}
