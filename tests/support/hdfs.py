"""A real HDFS on this machine: a NameNode and DataNodes as processes, on loopback."""

import contextlib
import json
import os
import signal

from tests.support.hadoop import HadoopCluster, hadoop_jars, hdfs_settings, java
from tests.support.sandbox import fetched, finished, free_port

from sparkwright.errors import ConfigurationError

_NAMENODE = "org.apache.hadoop.hdfs.server.namenode.NameNode"
_DATANODE = "org.apache.hadoop.hdfs.server.datanode.DataNode"
_COMMANDS = {
    "dfs": "org.apache.hadoop.fs.FsShell",
    "dfsadmin": "org.apache.hadoop.hdfs.tools.DFSAdmin",
    "fsck": "org.apache.hadoop.hdfs.tools.DFSck",
}
# Once for each DataNode, which has one folder; files without blocks reported cannot be read yet.
_FIRST_REPORT = "Processing first storage report for "
_WEB = "Jetty bound to port "


class HdfsCluster(HadoopCluster):
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
        datanodes=2,
        replication=2,
        block_size_bytes=128 << 20,
        settings=None,
        timeout_s=120.0,
    ):
        """Describe it; `start` or `with` starts it.

        `settings` are Hadoop's, over the defaults of this class. Small blocks make files of many.
        """
        super().__init__("hdfs", settings=settings, timeout_s=timeout_s)
        self.url = ""
        self._replication, self._block_size_bytes = replication, block_size_bytes
        self._datanode_count = datanodes
        self._datanodes = []
        self._namenode = None

    @property
    def web_url(self):
        """The NameNode's web server, with another port after each start.

        `/webhdfs/v1/` and `/jmx` answer; this packaging of Hadoop has no pages for people.
        """
        port = self._the_namenode().written().rpartition(_WEB)[2].split()[0]
        return f"http://127.0.0.1:{port}"

    # -- faults ---------------------------------------------------------------------------------

    def kill_datanode(self, number):
        """End a DataNode, by its number from 0, at once; the NameNode notices after about 12 s."""
        self._datanodes[number].kill()

    def restart_datanode(self, number):
        """Start a DataNode again, after ending it if it runs, and wait until it has registered."""
        server = self._datanodes[number]
        server.kill()
        self._start_datanode(number)
        server.wait_until(
            lambda: "Successfully sent block report" in server.written(),
            what="reporting its blocks to the NameNode",
            timeout_s=self._timeout_s,
        )

    def stop_namenode(self):
        """End the NameNode at once; what it has confirmed is on disk."""
        self._the_namenode().kill()

    def start_namenode(self):
        """Start the NameNode again on its port, and wait until it serves with all DataNodes."""
        self._start_namenode()
        self._wait_for_service()

    def pause_namenode(self):
        """Have the NameNode hang: it takes connections and never answers."""
        self._the_namenode().signal(signal.SIGSTOP)

    def resume_namenode(self):
        """Have it go on."""
        self._the_namenode().signal(signal.SIGCONT)

    # -- administration -------------------------------------------------------------------------

    def command(self, tool, *arguments):
        """Run Hadoop's own client as the superuser; returns what it prints.

        Args:
            tool: "dfs", "dfsadmin" or "fsck".
            arguments: such as "-put", "a.txt", "/a.txt".
        """
        path = f"{self.configuration_folder}{os.pathsep}{self._classpath}"
        command = [java(), "-cp", path, _COMMANDS[tool], *arguments]
        environment = self._environment()
        code, words = finished(command, timeout_s=self._timeout_s, environment=environment)
        if code:
            raise OSError(f"hdfs {tool} {' '.join(arguments)} failed: {words[-2000:]}")
        return words

    def safe_mode(self, on):
        """Have the NameNode refuse all changes, or end that."""
        self.command("dfsadmin", "-safemode", "enter" if on else "leave")

    def set_space_quota(self, path, size_bytes):
        """Bound the bytes below a folder, all copies counted, or end that with None.

        Before a block is written, a whole block's size must be left of the quota.
        """
        limit = ["-clrSpaceQuota"] if size_bytes is None else ["-setSpaceQuota", str(size_bytes)]
        self.command("dfsadmin", *limit, path)

    # -- starting -------------------------------------------------------------------------------

    def _prepare(self):
        self._classpath = os.pathsep.join(str(jar) for jar in hadoop_jars())

    def _start(self, keeper):
        self._namenode = self._server("NameNode", keeper)
        numbers = range(self._datanode_count)
        self._datanodes = [self._server(f"DataNode {number}", keeper) for number in numbers]
        self._start_at_free_ports(self._namenode, self._start_all, self._datanodes)

    def _start_all(self):
        port = free_port()
        self.url = f"hdfs://127.0.0.1:{port}"
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
        self._write_settings(folders)
        if not (self.folder / "namenode").exists():
            self._format()
        self._start_namenode()
        # Started meanwhile, they try again until it answers: the cores are used from the start.
        for number in range(self._datanode_count):
            self._start_datanode(number)
        self._wait_for_service()

    def _end(self, keeper):
        self._namenode, self._datanodes = None, []

    def _format(self):
        """Make the NameNode's empty file system."""
        command = self._java("server", _NAMENODE, "-format", "-nonInteractive")
        environment = self._environment()
        code, words = finished(command, timeout_s=self._timeout_s, environment=environment)
        if code:
            raise ConfigurationError(
                "Hadoop's NameNode must be able to make its files. Received:\n"
                f"{words[-2000:]}\nCheck Java and the settings."
            )

    def _start_namenode(self):
        self._the_namenode().start(self._java("server", _NAMENODE), self._environment())

    def _start_datanode(self, number):
        command = self._java(f"datanode-{number}-settings", _DATANODE)
        self._datanodes[number].start(command, self._environment())

    def _wait_for_service(self):
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

    def _serves(self, datanodes):
        """Whether the NameNode knows the blocks of so many DataNodes and is out of safe mode."""
        if self._the_namenode().written().count(_FIRST_REPORT) < datanodes:
            return False
        query = "/jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
        with contextlib.suppress(OSError, ValueError, LookupError):
            page = fetched(f"{self.web_url}{query}", timeout_s=self._timeout_s)
            state = json.loads(page)["beans"][0]
            return state["NumLiveDataNodes"] >= datanodes and state["FSState"] == "Operational"
        return False

    def _the_namenode(self):
        return self._started(self._namenode)
