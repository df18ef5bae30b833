"""Hadoop's classes: the client's, which PySpark brings, and the servers', which Maven fetches."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError

_FOLDER_VARIABLE = "SPARKWRIGHT_HADOOP_JARS"
_CLIENT = re.compile(r"hadoop-client-api-([0-9][\w.-]*)\.jar")
# The goal of this version fetches one artifact without a project, which later ones do as well.
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:2.8:copy"
# Of the version that Hadoop 3.5 was built with; its own packaging leaves out what is signed.
_CIPHERS = tuple(f"org.bouncycastle:{name}-jdk18on:1.82" for name in ("bcprov", "bcpkix", "bcutil"))
_LOGGING = ("log4j-", "slf4j-", "jcl-over-slf4j-", "commons-logging-")


def hadoop_jars(*, timeout_s: float = 600.0) -> list[Path]:
    """The jars of a Hadoop with NameNode and DataNode, at the version of PySpark's client.

    The client's and the logger's lie in PySpark. That of the servers (56 MB) is fetched once with
    Maven, which compares its checksum, and kept in ~/.cache/sparkwright/hadoop-VERSION. The
    environment variable SPARKWRIGHT_HADOOP_JARS names another folder; a machine without a network
    needs the jar there.

    Args:
        timeout_s: how long fetching may take, in seconds; default 600.

    Raises:
        ConfigurationError: if PySpark has no such client, or Maven is missing.
        NetworkError: if Maven cannot fetch the jar; with its words.
        RunTimeoutError: if that takes longer than `timeout_s`.
    """
    folder, version = _clients()
    jars = [folder / f"hadoop-client-{part}-{version}.jar" for part in ("api", "runtime")]
    loggers = sorted(jar for jar in folder.glob("*.jar") if jar.name.startswith(_LOGGING))
    return [server_jar(version, timeout_s=timeout_s), *jars, *loggers]


def yarn_jars(*, timeout_s: float = 600.0) -> list[Path]:
    """The jars of a Hadoop with ResourceManager and NodeManager: those of `hadoop_jars`, and more.

    What is more are ciphers (10 MB), which are fetched and kept in the same way.

    Args:
        timeout_s: how long fetching each jar may take, in seconds; default 600.

    Raises:
        ConfigurationError, NetworkError, RunTimeoutError: as `hadoop_jars`.
    """
    _, version = _clients()
    folder = _folder(version)
    ciphers = [_kept(folder, artifact, timeout_s=timeout_s) for artifact in _CIPHERS]
    return [*hadoop_jars(timeout_s=timeout_s), *ciphers]


def server_jar(version: str, *, timeout_s: float) -> Path:
    """The jar with the servers of Hadoop `version`, fetched if it is not in its folder.

    Raises:
        ConfigurationError, NetworkError, RunTimeoutError: as `hadoop_jars`.
    """
    artifact = f"org.apache.hadoop:hadoop-client-minicluster:{version}"
    return _kept(_folder(version), artifact, timeout_s=timeout_s)


def java() -> str:
    """The Java to run them with: that of JAVA_HOME, or the one on the path.

    Raises:
        ConfigurationError: if there is none.
    """
    home = os.environ.get("JAVA_HOME")
    found = shutil.which(f"{home}/bin/java") if home else shutil.which("java")
    if found is None:
        raise ConfigurationError(
            f"Hadoop's servers need Java 17 or 21. Received: JAVA_HOME={home!r}, and no java "
            "there or on the path. Install it, or set JAVA_HOME."
        )
    return found


def _folder(version: str) -> Path:
    default = Path.home() / ".cache" / "sparkwright" / f"hadoop-{version}"
    return Path(os.environ.get(_FOLDER_VARIABLE) or default)


def _kept(folder: Path, artifact: str, *, timeout_s: float) -> Path:
    """The jar of an artifact, "group:name:version", in `folder`; fetched if it is not there."""
    _, name, version = artifact.split(":")
    jar = folder / f"{name}-{version}.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        # Beside its place and then renamed: whoever asks meanwhile sees no half of it.
        with tempfile.TemporaryDirectory(dir=folder, prefix=".fetching-") as new:
            _fetch(artifact, new, timeout_s)
            (Path(new) / jar.name).replace(jar)
    return jar


def _clients() -> tuple[Path, str]:
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


def _fetch(artifact: str, folder: str, timeout_s: float) -> None:
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
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s
        )
    except subprocess.TimeoutExpired:
        raise RunTimeoutError(
            f"Waited {timeout_s:g} s for Maven to fetch {artifact}. Try again; what has come so "
            "far is kept."
        ) from None
    if done.returncode:
        words = (done.stdout + done.stderr).strip()[-2000:]
        raise NetworkError(
            f"Maven could not fetch {artifact}. Received:\n{words}\nCheck the network connection, "
            f"or put the jar into the folder that {_FOLDER_VARIABLE} names."
        )
