"""A real HDFS on this machine: a NameNode and DataNodes as processes, on loopback."""

import contextlib
import getpass
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.hadoop import (
    CLIENT_LOG_SETTINGS,
    LOG_SETTINGS,
    as_xml,
    hadoop_jars,
    hdfs_settings,
    java,
)
from tests.support.sandbox import SHORT_LIVED, Keeper, Sandbox, ServerProcess, fetched, free_port

from sparkwright.errors import ConfigurationError, RunTimeoutError, SparkwrightError

_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_COMMANDS = {
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
}
_MEMORY = "-Xmx512m"
_PORT_ATTEMPTS = 5
# Once for each DataNode, which has one folder; files without blocks reported cannot be read yet.
_FIRST_REPORT = "Processing first storage report for "
_WEB = "Jetty bound to port "


class HdfsCluster(Sandbox):
    """A NameNode and DataNodes of their own, for tests and for trying things.

    They listen on loopback, keep everything in one temporary folder, and end with this process,
    however it ends. Whoever runs it is the superuser of the file system.

    Attributes:
        folder: for everything; it exists while the cluster runs.
        url: "hdfs://127.0.0.1:PORT".

    Example:
        with HdfsCluster() as hdfs:
            sw.save_model(model, f"{hdfs.url}/models/lenet.keras")
    """

    def __init__(
        self,
        *,
        datanodes: int = 2,
        replication: int = 2,
        block_size_bytes: int = 128 << 20,
        settings: Mapping[str, str] | None = None,
        timeout_s: float = 120.0,
    ) -> None:
        """Describe it; `start` or `with` starts it.

        Args:
            datanodes: how many; default 2.
            replication: copies of each block of new files; default 2.
            block_size_bytes: of new files; default 128 MB. Small ones make files of many blocks.
            settings: of Hadoop, for all processes, over the defaults of this class; default none.
            timeout_s: how long each wait for a process may take, in seconds; default 120.

        Raises:
            ConfigurationError: if there are no DataNodes, or fewer than copies.
        """
        if not 1 <= replication <= datanodes:
            raise ConfigurationError(
                "each copy of a block needs a DataNode of its own. Received: "
                f"datanodes={datanodes}, replication={replication}. Use more DataNodes."
            )
        super().__init__("hdfs")
        self.url = ""
        self._replication, self._block_size_bytes = replication, block_size_bytes
        self._settings, self._timeout_s = dict(settings or {}), timeout_s
        self._datanode_count = datanodes
        self._datanodes: list[ServerProcess] = []
        self._namenode: ServerProcess | None = None
        self._classpath = ""
        # An own user name and configuration in the environment are for clients.
        self._environment = {n: v for n, v in os.environ.items() if not n.startswith("HADOOP_")}

    # -- what is where --------------------------------------------------------------------------

    @property
    def configuration_folder(self) -> Path:
        """For HADOOP_CONF_DIR: core-site.xml and hdfs-site.xml, which name this HDFS."""
        return self.folder / "client"

    @property
    def logs(self) -> Path:
        """The folder of the processes' logs."""
        return self.folder / "logs"

    @property
    def web_url(self) -> str:
        """The NameNode's web server, with another port after each start.

        `/webhdfs/v1/` and `/jmx` answer; this packaging of Hadoop has no pages for people.
        """
        port = self._the_namenode().written().rpartition(_WEB)[2].split()[0]
        return f"http://127.0.0.1:{port}"

    # -- faults ---------------------------------------------------------------------------------

    def kill_datanode(self, number: int) -> None:
        """End a DataNode at once; the NameNode notices after about 12 s.

        Args:
            number: from 0.
        """
        self._datanodes[number].kill()

    def restart_datanode(self, number: int) -> None:
        """Start a DataNode again, after ending it if it runs, and wait until it has registered.

        Args:
            number: from 0.

        Raises:
            NetworkError, RunTimeoutError: as `start`.
        """
        server = self._datanodes[number]
        server.kill()
        self._start_datanode(number)
        server.wait_until(
            lambda: "Successfully sent block report" in server.written(),
            what="reporting its blocks to the NameNode",
            timeout_s=self._timeout_s,
        )

    def stop_namenode(self) -> None:
        """End the NameNode at once; what it has confirmed is on disk."""
        self._the_namenode().kill()

    def start_namenode(self) -> None:
        """Start the NameNode again on its port, and wait until it serves with all DataNodes.

        Raises:
            NetworkError, RunTimeoutError: as `start`.
        """
        self._start_namenode()
        self._wait_for_service()

    def pause_namenode(self) -> None:
        """Have the NameNode hang: it takes connections and never answers."""
        self._the_namenode().signal(signal.SIGSTOP)

    def resume_namenode(self) -> None:
        """Have it go on."""
        self._the_namenode().signal(signal.SIGCONT)

    # -- administration -------------------------------------------------------------------------

    def command(
        self, tool: str, *arguments: str, user: str | None = None, timeout_s: float | None = None
    ) -> str:
        """Run Hadoop's own client, as `hdfs TOOL ARGUMENTS`; returns what it prints.

        Args:
            tool: "dfs", "dfsadmin" or "fsck".
            arguments: such as "-put", "a.txt", "/a.txt".
            user: whom to act as; default None: the superuser.
            timeout_s: default None: that of the cluster.

        Raises:
            ConfigurationError: for another tool.
            OSError: if it fails, with its words.
            RunTimeoutError: if it takes longer.
        """
        if tool not in _COMMANDS:
            raise ConfigurationError(
                f"a command must be one of {', '.join(_COMMANDS)}. Received: tool={tool!r}."
            )
        environment = self._environment | ({} if user is None else {"HADOOP_USER_NAME": user})
        limit_s = self._timeout_s if timeout_s is None else timeout_s
        options = ["-cp", self._classpath_with(self.configuration_folder)]
        try:
            done = subprocess.run(
                [java(), *options, _COMMANDS[tool], *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                env=environment,
                timeout=limit_s,
            )
        except subprocess.TimeoutExpired:
            raise RunTimeoutError(
                f"Waited {limit_s:g} s for hdfs {tool} {' '.join(arguments)}. Is the NameNode of "
                f"{self.url} there?"
            ) from None
        if done.returncode:
            words = (done.stderr + done.stdout).strip()[-2000:]
            raise OSError(f"hdfs {tool} {' '.join(arguments)} failed: {words}")
        return done.stdout

    def safe_mode(self, on: bool) -> None:
        """Have the NameNode refuse all changes, or end that."""
        self.command("dfsadmin", "-safemode", "enter" if on else "leave")

    def set_space_quota(self, path: str, size_bytes: int | None) -> None:
        """Bound the bytes below a folder, all copies counted, or end that with None.

        Before a block is written, a whole block's size must be left of the quota.
        """
        limit = ["-clrSpaceQuota"] if size_bytes is None else ["-setSpaceQuota", str(size_bytes)]
        self.command("dfsadmin", *limit, path)

    def set_permissions(self, path: str, mode: str, *, owner: str | None = None) -> None:
        """Set who may do what with a path.

        Args:
            path: of a file or folder.
            mode: such as "700".
            owner: its new owner; default None: as it is.
        """
        self.command("dfs", "-chmod", mode, path)
        if owner is not None:
            self.command("dfs", "-chown", owner, path)

    # -- starting -------------------------------------------------------------------------------

    def _prepare(self) -> None:
        self._classpath = os.pathsep.join(str(jar) for jar in hadoop_jars())

    def _start(self, keeper: Keeper) -> None:
        self.logs.mkdir()
        self._namenode = self._add_server("NameNode", keeper, logs=self.logs)
        self._datanodes = [
            self._add_server(f"DataNode {number}", keeper, logs=self.logs)
            for number in range(self._datanode_count)
        ]
        for attempt in range(_PORT_ATTEMPTS):
            port = free_port()
            self.url = f"hdfs://127.0.0.1:{port}"
            self._write_settings(port)
            if attempt == 0:
                self._format()
            self._start_namenode()
            # Started meanwhile, they try again until it answers: the cores are used from the start.
            for number in range(self._datanode_count):
                self._start_datanode(number)
            try:
                self._wait_for_service()
            except SparkwrightError:
                if "BindException" not in self._namenode.written() or attempt == _PORT_ATTEMPTS - 1:
                    raise
                for server in (self._namenode, *self._datanodes):
                    server.kill()
            else:
                return

    def _end(self, keeper: Keeper) -> None:
        self._namenode, self._datanodes = None, []

    def _write_settings(self, port: int) -> None:
        settings = hdfs_settings(
            port=port,
            folder=str(self.folder),
            replication=self._replication,
            block_size_bytes=self._block_size_bytes,
        )
        settings |= self._settings
        folders = {"server": settings, "client": settings}
        for number in range(self._datanode_count):
            own = {"dfs.datanode.data.dir": str(self.folder / f"datanode-{number}")}
            folders[f"datanode-{number}-settings"] = settings | own
        for name, values in folders.items():
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            for file in ("core-site.xml", "hdfs-site.xml"):
                (folder / file).write_text(as_xml(values))
            log = CLIENT_LOG_SETTINGS if name == "client" else LOG_SETTINGS
            (folder / "log4j2.properties").write_text(log)

    def _format(self) -> None:
        """Make the NameNode's empty file system."""
        command = self._java("server", _NAMENODE, "-format", "-nonInteractive")
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            timeout=self._timeout_s,
        )
        if done.returncode:
            raise ConfigurationError(
                "Hadoop's NameNode must be able to make its files. Received:\n"
                f"{done.stdout.decode(errors='replace')[-2000:]}\nCheck Java and the settings."
            )

    def _start_namenode(self) -> None:
        self._the_namenode().start(self._java("server", _NAMENODE), self._environment)

    def _start_datanode(self, number: int) -> None:
        command = self._java(f"datanode-{number}-settings", _DATANODE)
        self._datanodes[number].start(command, self._environment)

    def _java(self, settings: str, *arguments: str) -> list[str]:
        path = self._classpath_with(self.folder / settings)
        user = f"-DHADOOP_USER_NAME={getpass.getuser()}"
        return [java(), *SHORT_LIVED, _MEMORY, user, "-cp", path, *arguments]

    def _classpath_with(self, settings: Path) -> str:
        return f"{settings}{os.pathsep}{self._classpath}"

    def _wait_for_service(self) -> None:
        namenode = self._the_namenode()
        namenode.wait_until(
            lambda: "NameNode RPC up at" in namenode.written() and _WEB in namenode.written(),
            what="listening",
            timeout_s=self._timeout_s,
        )
        running = sum(server.is_running for server in self._datanodes)
        namenode.wait_until(
            lambda: self._serves(running),
            what=f"having {running} DataNodes and their blocks",
            timeout_s=self._timeout_s,
        )

    def _serves(self, datanodes: int) -> bool:
        """Whether the NameNode knows the blocks of so many DataNodes and is out of safe mode."""
        if self._the_namenode().written().count(_FIRST_REPORT) < datanodes:
            return False
        query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        with contextlib.suppress(OSError, ValueError, LookupError):
            page = fetched(f"{self.web_url}{query}", timeout_s=self._timeout_s)
            state: dict[str, Any] = json.loads(page)["beans"][0]
            return state["NumLiveDataNodes"] >= datanodes and state["FSState"] == "Operational"
        return False

    def _the_namenode(self) -> ServerProcess:
        return self._started(self._namenode)
