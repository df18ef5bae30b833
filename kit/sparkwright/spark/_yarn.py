"""YARN: a session's settings, and whether there is a cluster to ask before Spark waits for it."""

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sparkwright.errors import ConfigurationError, NetworkError

from ._hadoop_conf import manager_addresses, parse_hadoop_settings
from ._yarn_jars import jars_settings

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_CONNECT_TIMEOUT_S = 10.0
_HADOOP = "spark.hadoop."


def yarn_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Settings for executors on YARN; none for another master.

    Args:
        chosen: all other settings, the master among them.

    Raises:
        ConfigurationError: if no configuration of a cluster is found.
        NetworkError: if its ResourceManager does not answer.
    """
    if chosen.get("spark.master") != "yarn":
        return {}
    hadoop = _hadoop_settings(chosen)
    _check_java()
    _check_manager(hadoop)
    return jars_settings(chosen, hadoop)


def _hadoop_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Of the configuration's folder, and of the session over it."""
    named = {name: os.environ[name] for name in _FOLDERS if os.environ.get(name)}
    if not named:
        raise ConfigurationError(
            "Spark finds YARN and HDFS by the configuration of the cluster. Received: neither "
            "HADOOP_CONF_DIR nor YARN_CONF_DIR in the environment. Copy core-site.xml, "
            "hdfs-site.xml and yarn-site.xml from the cluster into a folder, and set it before "
            'Spark starts: `os.environ["HADOOP_CONF_DIR"] = "/etc/hadoop/conf"`.'
        )
    settings: dict[str, str] = {}
    files = [Path(folder) / file for folder in named.values() for file in _FILES]
    present = [file for file in files if file.is_file()]
    if not any(file.name == "yarn-site.xml" for file in present):
        words = ", ".join(f"{name}={folder!r}" for name, folder in named.items())
        raise ConfigurationError(
            f"the folder of Hadoop's configuration must have a yarn-site.xml. Received: {words}, "
            f"with {', '.join(file.name for file in present) or 'none of its files'}. Copy it from "
            "the cluster, or name the folder that has it."
        )
    for file in present:
        text = file.read_text(encoding="utf-8", errors="replace")
        settings |= parse_hadoop_settings(text, name=str(file))
    own = {name: value for name, value in chosen.items() if name.startswith(_HADOOP)}
    return settings | {name.removeprefix(_HADOOP): value for name, value in own.items()}


def _check_java() -> None:
    """Refuse a Java that an earlier session has started, if it does not know this cluster.

    Raises:
        ConfigurationError: if it was started without the configuration, or with another.
    """
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    if jvm is None:
        return
    known = {name: jvm.java.lang.System.getenv(name) for name in _FOLDERS}
    if any(os.environ.get(name) != known[name] for name in _FOLDERS):
        raise ConfigurationError(
            "Java learns of a cluster when it starts, and runs already for an earlier session. "
            f"Received: HADOOP_CONF_DIR={os.environ.get('HADOOP_CONF_DIR')!r} here, "
            f"{known['HADOOP_CONF_DIR']!r} there. Restart the kernel, and set it before the first "
            "session."
        )


def _check_manager(hadoop: Mapping[str, str]) -> None:
    """Refuse a ResourceManager that cannot be reached: Spark would ask it for a quarter of an hour.

    Raises:
        NetworkError: if none of them answers.
    """
    failures: list[str] = []
    for host, port in manager_addresses(hadoop):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({error})")
        else:
            return
    raise NetworkError(
        "YARN's ResourceManager must answer before Spark starts. Received: the driver waited up "
        f"to {_CONNECT_TIMEOUT_S:g} s for {', '.join(failures)}. Check "
        "yarn.resourcemanager.hostname in the yarn-site.xml of HADOOP_CONF_DIR, and that this "
        "machine reaches that port."
    )
