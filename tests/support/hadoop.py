"""Hadoop for tests: its jars, which PySpark and Maven bring, and the settings of its servers."""

import getpass
import os
import re
import shutil
import tempfile
from pathlib import Path
from xml.sax.saxutils import escape

from tests.support.sandbox import SHORT_LIVED, Sandbox, finished

from sparkwright.errors import ConfigurationError, NetworkError, SparkwrightError

_FOLDER_VARIABLE = "SPARKWRIGHT_HADOOP_JARS"
_CLIENT = re.compile(r"hadoop-client-api-([0-9][\w.-]*)\.jar")
# The goal of this version fetches one artifact without a project, which later ones do as well.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"
# Of the version that Hadoop 3.5 was built with; its own packaging leaves out what is signed.
_CIPHERS = tuple(f"org.bouncycastle:{name}-jdk18on:1.82" for name in ("bcprov", "bcpkix", "bcutil"))
_PORT_ATTEMPTS = 5
_LOGGING = ("log4j-", "slf4j-", "jcl-over-slf4j-", "commons-logging-")


def hadoop_jars(*, timeout_s=600.0):
    """The jars of a Hadoop with NameNode and DataNode, at the version of PySpark's client.

    The client's and the logger's lie in PySpark. That of the servers (56 MB) is fetched once with
    Maven, which compares its checksum, and kept in ~/.cache/sparkwright/hadoop-VERSION. The
    environment variable SPARKWRIGHT_HADOOP_JARS names another folder; a machine without a network
    needs the jar there. ConfigurationError, NetworkError and RunTimeoutError say what is missing.
    """
    folder, version = _clients()
    servers = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
    jars = [folder / f"hadoop-client-{part}-{version}.jar" for part in ("api", "runtime")]
    loggers = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(_LOGGING))
    return [kept_jar(servers, timeout_s=timeout_s), *jars, *loggers]


def yarn_jars(*, timeout_s=600.0):
    """Those with ResourceManager and NodeManager: ciphers (10 MB) more, kept in the same way."""
    ciphers = [kept_jar(artifact, timeout_s=timeout_s) for artifact in _CIPHERS]
    return [*hadoop_jars(timeout_s=timeout_s), *ciphers]


def java():
    """The Java to run them with: that of JAVA_HOME, or the one on the path."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if found is None:
        raise ConfigurationError(
            f"Hadoop's servers need Java 17 or 21. Received: JAVA_HOME={home!r}, and no java "
            "there or on the path. Install it, or set JAVA_HOME."
        )
    return found


def kept_jar(artifact, *, timeout_s=600.0):
    """The jar of an artifact, "group:name:version"; fetched if it is not in its folder."""
    _, version = _clients()
    default = Path.home() / ".cache" / "sparkwright" / f"hadoop-{version}"
    folder = Path(os.environ.get(_FOLDER_VARIABLE) or default)
    _, name, own_version = artifact.split(":")
    jar = folder / f"{name}-{own_version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place and then renamed: whoever asks meanwhile sees no half of it.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as new:
            _fetch(artifact, new, timeout_s)
            (Path(new) / jar.name).replace(jar)
    return jar


def _clients():
    """PySpark's folder of jars, and the version of the Hadoop client in it."""
    import pyspark

    folder = Path(pyspark.__file__).parent / "jars"
    for jar in sorted(folder.glob("hadoop-client-api-*.jar")):
        if named := _CLIENT.fullmatch(jar.name):
            return folder, named[1]
    raise ConfigurationError(
        f"PySpark must come with Hadoop's client. Received: no hadoop-client-api in {folder}. "
        "Install the package pyspark from a package index, without PYSPARK_HADOOP_VERSION."
    )


def _fetch(artifact, folder, timeout_s):
    maven = shutil.which("mvn")
    if maven is None:
        raise ConfigurationError(
            f"Hadoop's servers are fetched with Maven. Received: no mvn on the path, for "
            f"{artifact}. Install it (on Debian or Ubuntu: apt-get install maven), or put the jar "
            f"into the folder that {_FOLDER_VARIABLE} names."
        )
    # --strict-checksums: what arrives damaged is refused instead of warned about.
    command = [maven, "--batch-mode", "--quiet", "--strict-checksums", _COPY]
    command += [f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    code, words = finished(command, timeout_s=timeout_s)
    if code:
        raise NetworkError(
            f"Maven could not fetch {artifact}. Received:\n{words[-2000:]}\nCheck the network "
            f"connection, or put the jar into the folder that {_FOLDER_VARIABLE} names."
        )


class HadoopCluster(Sandbox):
    """Servers of Hadoop that find their settings, and their log's, in folders of the sandbox."""

    def __init__(self, name, *, settings, timeout_s):
        super().__init__(name)
        self._settings, self._timeout_s = dict(settings or {}), timeout_s
        self._classpath = ""

    @property
    def configuration_folder(self):
        """For HADOOP_CONF_DIR: the settings of clients, which name this cluster."""
        return self.folder / "client"

    @property
    def logs(self):
        """The folder of the servers' logs."""
        return self.folder / "logs"

    def _server(self, name, keeper):
        self.logs.mkdir(exist_ok=True)
        return self._add_server(name, keeper, logs=self.logs)

    def _write_settings(self, folders):
        """Settings by the name of a folder."""
        for name, values in folders.items():
            folder = self.folder / name
            folder.mkdir(exist_ok=True)
            for file in ("core-site.xml", "hdfs-site.xml", "yarn-site.xml"):
                (folder / file).write_text(as_xml(values))
            log = _LOG_SETTINGS.format(level="error" if name == "client" else "info")
            (folder / "log4j2.properties").write_text(log)

    def _java(self, settings, *arguments):
        """The command of a class of Hadoop, with the settings of that folder."""
        path = f"{self.folder / settings}{os.pathsep}{self._classpath}"
        user = f"-DHADOOP_USER_NAME={getpass.getuser()}"
        return [java(), *SHORT_LIVED, "-Xmx512m", user, "-cp", path, *arguments]

    def _environment(self):
        """What servers get: user names and configuration in the environment are for clients."""
        ours = ("HADOOP_", "YARN_", "SPARK_")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        # Containers start Java as $JAVA_HOME/bin/java.
        return kept | {"JAVA_HOME": str(Path(os.path.realpath(java())).parents[1])}

    def _start_at_free_ports(self, first, start, servers=()):
        """Have `start` choose ports and start servers until none of them was taken meanwhile."""
        for attempt in range(_PORT_ATTEMPTS):
            try:
                start()
            except SparkwrightError:
                if "BindException" not in first.written() or attempt == _PORT_ATTEMPTS - 1:
                    raise
                for server in (first, *servers):
                    server.kill()
            else:
                return


# -- settings: on loopback, in one folder, quick to notice -------------------------------------

_LOG_SETTINGS = """\
rootLogger.level = {level}
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{ISO8601}} %p %c{{1}}: %m%n
"""


def hdfs_settings(*, port, folder, replication, block_size_bytes):
    """Those of the NameNode and all DataNodes; DataNodes have folders of their own."""
    return {
        "fs.defaultFS": f"hdfs://127.0.0.1:{port}",
        "hadoop.tmp.dir": f"{folder}/tmp",
        "dfs.namenode.name.dir": f"{folder}/namenode",
        "dfs.namenode.http-address": "127.0.0.1:0",
        "dfs.datanode.address": "127.0.0.1:0",
        "dfs.datanode.http.address": "127.0.0.1:0",
        "dfs.datanode.ipc.address": "127.0.0.1:0",
        "dfs.datanode.hostname": "127.0.0.1",
        "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        "dfs.replication": str(replication),
        "dfs.blocksize": str(block_size_bytes),
        "dfs.namenode.fs-limits.min-block-size": "1024",
        # A power cut loses what a sandbox holds anyway; syncing costs most of a small operation.
        "dfs.namenode.edits.noeditlogchannelflush": "true",
        "dfs.namenode.safemode.extension": "0",
        "dfs.namenode.redundancy.interval.seconds": "1s",
        # A dead DataNode counts as stale after 3 s, as dead after 2 * 1 s + 10 * 1 s.
        "dfs.heartbeat.interval": "1s",
        "dfs.namenode.heartbeat.recheck-interval": "1000",
        "dfs.namenode.stale.datanode.interval": "3000",
        "dfs.namenode.avoid.read.stale.datanode": "true",
        "dfs.namenode.avoid.write.stale.datanode": "true",
        "dfs.namenode.decommission.interval": "1s",
        "ipc.client.connect.max.retries": "40",
        "ipc.client.connect.retry.interval": "250",
        "dfs.client.datanode-restart.timeout": "1s",
    }


def as_xml(settings):
    """Settings as Hadoop reads them, from core-site.xml or hdfs-site.xml.

    Example:
        >>> "<name>a</name><value>1 &lt; 2</value>" in as_xml({"a": "1 < 2"})
        True
    """
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    return f'<?xml version="1.0"?>\n<configuration>\n{properties}</configuration>\n'


def manager_settings(*, ports, folder, memory_mb):
    """What the ResourceManager, all NodeManagers and clients get.

    `ports` are the ResourceManager's, by the part of the setting's name; "" is that for clients.
    """
    services = {
        f"yarn.resourcemanager.{service + '.' if service else ''}address": f"127.0.0.1:{port}"
        for service, port in ports.items()
    }
    return services | {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": str(memory_mb),
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.resourcemanager.am.max-attempts": "1",
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": f"file://{folder}/labels",
        "yarn.node-labels.configuration-type": "distributed",
    }


def node_settings(*, folder, memory_mb, cores, label):
    """What one NodeManager has of its own: folder, resources for containers, its label."""
    settings = {
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.address": "127.0.0.1:0",
        "yarn.nodemanager.localizer.address": "127.0.0.1:0",
        "yarn.nodemanager.webapp.address": "127.0.0.1:0",
        "yarn.nodemanager.collector-service.address": "127.0.0.1:0",
        "yarn.nodemanager.local-dirs": f"{folder}/local",
        "yarn.nodemanager.log-dirs": f"{folder}/logs",
        "yarn.nodemanager.resource.memory-mb": str(memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(cores),
        "yarn.nodemanager.container-executor.class": (
            "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"
        ),
        # TensorFlow reserves addresses that it never uses.
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "true",
        # Else the NodeManager leaves it to cgroups, which are not used here.
        "yarn.nodemanager.resource.memory.enforced": "false",
        "yarn.nodemanager.container-monitor.interval-ms": "500",
        "yarn.nodemanager.container-monitor.procfs-tree.smaps-based-rss.enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "2000",
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME",
    }
    if label is not None:
        settings["yarn.nodemanager.node-labels.provider"] = "config"
        settings["yarn.nodemanager.node-labels.provider.configured-node-partition"] = label
    return settings


def scheduler_settings(labels):
    """capacity-scheduler.xml: one queue, which may use every machine, whatever its label."""
    queues = ("root", "root.default")
    settings = {
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        # Of the memory that masters of applications may take: they are small, but so is this.
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        "yarn.scheduler.capacity.resource-calculator": (
            "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        ),
        "yarn.scheduler.capacity.node-locality-delay": "-1",
    }
    for queue in queues:
        prefix = f"yarn.scheduler.capacity.{queue}.accessible-node-labels"
        settings[prefix] = ",".join(labels)
        settings |= {f"{prefix}.{label}.capacity": "100" for label in labels}
    return settings
