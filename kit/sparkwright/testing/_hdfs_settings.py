"""The settings of a small HDFS for tests: quick, on loopback, in one folder. Pure."""

from collections.abc import Mapping
from xml.sax.saxutils import escape

LOG_SETTINGS = """\
rootLogger.level = info
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %c{1}: %m%n
"""
CLIENT_LOG_SETTINGS = LOG_SETTINGS.replace("level = info", "level = error")


def server_settings(
    *, port: int, folder: str, replication: int, block_size_bytes: int
) -> dict[str, str]:
    """What the NameNode and all DataNodes get.

    Args:
        port: where the NameNode listens.
        folder: for the NameNode's files; DataNodes have their own setting.
        replication: copies of each block.
        block_size_bytes: of new files.
    """
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


def as_xml(settings: Mapping[str, str]) -> str:
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
