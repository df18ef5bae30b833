"""A Spark standalone cluster on this machine: Master and Workers, on hosts of their own or not."""

import contextlib
import json
import os
import re
import signal
import sys
from pathlib import Path

import psutil
from tests.support.hadoop import java
from tests.support.hosts import OUTSIDE
from tests.support.sandbox import SHORT_LIVED, Sandbox, fetched

from sparkwright.errors import ConfigurationError
from sparkwright.spark._java import spark_home

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_MEMORY = "-Xmx256m"
_SERVICE = "Successfully started service '{}' on port ([0-9]+)"
_LOOPBACK = "127.0.0.1"


class StandaloneCluster(Sandbox):
    """Spark's own cluster manager with Workers, each of which starts executors.

    Everything is in one temporary folder and ends with this process, however it ends.

    Example:
        with StandaloneCluster() as cluster:
            spark = sw.start_spark(master=cluster.url, settings=cluster.driver_settings)
    """

    def __init__(
        self,
        *,
        hosts=None,
        master="master",
        workers=("worker-1", "worker-2"),
        cores=1,
        memory_mb=1536,
        settings=None,
        worker_timeout_s=60.0,
        timeout_s=60.0,
    ):
        """Describe it; `start` or `with` starts it.

        `hosts` must run and outlive the cluster; without them all is on loopback. `memory_mb` is
        for heaps of executors of a Worker. The Master takes a silent Worker to be alive for
        `worker_timeout_s`; Workers speak four times as often.
        """
        super().__init__("spark")
        self.url = ""
        self._hosts, self._master_name, self.workers = hosts, master, tuple(workers)
        self._cores, self._memory_mb, self._timeout_s = cores, memory_mb, timeout_s
        self._settings = {"spark.worker.timeout": f"{max(1, round(worker_timeout_s))}"}
        self._settings |= settings or {}
        self._processes = {}

    # -- what is where --------------------------------------------------------------------------

    @property
    def driver_settings(self):
        """Settings for a driver in this process: its address, and this Python for executors."""
        address = self._address(OUTSIDE)
        return {
            "spark.driver.host": address,
            "spark.driver.bindAddress": address,
            "spark.ui.enabled": "false",
            "spark.pyspark.python": sys.executable,
            "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
        }

    @property
    def alive_workers(self):
        """Workers that the Master takes to be alive."""
        return sum(worker["state"] == "ALIVE" for worker in self._state()["workers"])

    def wait_for_workers(self, count):
        """Wait until the Master takes exactly `count` Workers to be alive."""
        self._processes[self._master_name].wait_until(
            lambda: self.alive_workers == count,
            what=f"having {count} Workers",
            timeout_s=self._timeout_s,
        )

    # -- faults ---------------------------------------------------------------------------------

    def kill_worker(self, name):
        """End a Worker and its executors at once, as if its machine had lost power."""
        self._processes[name].kill()

    def decommission(self, name):
        """Announce that a Worker's machine is to go; it needs `spark.decommission.enabled`."""
        self._processes[name].signal(signal.SIGPWR)

    def worker_of(self, pid):
        """The Worker below which a process works, such as a trainer."""
        below = Path(psutil.Process(pid).cwd()).relative_to(self.folder)
        return below.parts[0].removesuffix("-files")

    def start_worker(self, name):
        """Start a Worker, or start it again; it registers by itself."""
        address = self._address(name)
        own = self.folder / f"{name}-files"
        for folder in ("work", "local", "tmp"):
            (own / folder).mkdir(parents=True, exist_ok=True)
        arguments = ["--host", address, "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", str(self._cores), "--memory", f"{self._memory_mb}m"]
        arguments += ["--work-dir", str(own / "work"), self.url]
        environment = {"SPARK_LOCAL_DIRS": str(own / "local"), "TMPDIR": str(own / "tmp")}
        self._run(name, address, _WORKER, arguments, environment)

    # -- starting -------------------------------------------------------------------------------

    def _start(self, keeper):
        for name in (self._master_name, *self.workers):
            self._processes[name] = self._add_server(name, keeper)
        self._start_master()
        for name in self.workers:
            self.start_worker(name)
        self.wait_for_workers(len(self.workers))

    def _start_master(self):
        address = self._address(self._master_name)
        arguments = ["--host", address, "--port", "0", "--webui-port", "0"]
        self._run(self._master_name, address, _MASTER, arguments, {})
        master = self._processes[self._master_name]
        master.wait_until(
            lambda: None not in (self._port("sparkMaster"), self._port("MasterUI")),
            what="listening",
            timeout_s=self._timeout_s,
        )
        self.url = f"spark://{address}:{self._port('sparkMaster')}"

    def _run(self, name, address, kind, arguments, environment):
        home = spark_home()
        options = [f"-D{key}={value}" for key, value in self._settings.items()]
        command = [java(), *SHORT_LIVED, _MEMORY, *options, "-cp", str(home / "jars" / "*"), kind]
        command += arguments
        if self._hosts is not None:
            command = self._hosts.command(name, command)
        inherited = {n: v for n, v in os.environ.items() if not n.startswith("SPARK_")}
        fixed = {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": address}
        # What Spark's shell scripts would say; without it, executors' commands cannot be built.
        fixed["SPARK_SCALA_VERSION"] = _scala_version(home)
        self._processes[name].start(command, inherited | fixed | dict(environment))

    def _address(self, name):
        return _LOOPBACK if self._hosts is None else self._hosts.address(name)

    def _port(self, service):
        written = self._processes[self._master_name].written()
        found = re.search(_SERVICE.format(service), written)
        return None if found is None else int(found[1])

    def _state(self):
        """What the Master's web page knows; no Workers while it does not answer."""
        url = f"http://{self._address(self._master_name)}:{self._port('MasterUI')}/json/"
        with contextlib.suppress(OSError, ValueError):
            return json.loads(fetched(url, timeout_s=5.0))
        return {"workers": []}


def _scala_version(home):
    for jar in (home / "jars").glob("spark-core_*.jar"):
        return jar.name.removeprefix("spark-core_").partition("-")[0]
    raise ConfigurationError(
        f"PySpark must come with Spark. Received: no spark-core in {home / 'jars'}. Install the "
        "package pyspark from a package index."
    )
