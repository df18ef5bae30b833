"""YARN: session settings, reachability check, and waiting for containers."""

import contextlib
import getpass
import hashlib
import logging
import os
import re
import secrets
import socket
import threading
import time
import zipfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError, SparkwrightError
from sparkwright.storage.files import exists, write_atomically

from ._java import default_settings, spark_home

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_CONNECT_TIMEOUT_S = 10.0
_HADOOP = "spark.hadoop."
_PORT = 8032
_VARIABLE = re.compile(r"\$\{([\w.-]+)\}")
_MOST_SUBSTITUTIONS = 20  # Hadoop's limit for circular references
_MANAGER = "yarn.resourcemanager"
_log = logging.getLogger(__name__)
_DECIDING = ("spark.yarn.archive", "spark.yarn.jars")
TAGS = "spark.yarn.tags"
TIMEOUT = "spark.sparkwright.yarnTimeout"
_TIMEOUT_S = 300.0
_TELL_AFTER_S = 15.0
_LOOK_AGAIN_S = 1.0
_END_TIMEOUT_S = 10.0
_WAITING = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"}


def yarn_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return settings for executors on YARN; none for other masters."""
    if chosen.get("spark.master") != "yarn":
        return {}
    hadoop = _hadoop_settings(chosen)
    _check_java()
    _check_manager(hadoop)
    if hadoop.get("hadoop.security.authentication") == "kerberos":
        check_ticket()
    return jars_settings(chosen, hadoop)


def _hadoop_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return Hadoop's settings from its configuration folder, overridden by the session's."""
    named = {name: os.environ[name] for name in _FOLDERS if os.environ.get(name)}
    if not named:
        raise ConfigurationError(
            "YARN needs the cluster's Hadoop configuration. Received: neither "
            "HADOOP_CONF_DIR nor YARN_CONF_DIR in the environment. Copy core-site.xml, "
            "hdfs-site.xml and yarn-site.xml from the cluster into a folder, and set before "
            'Spark starts: `os.environ["HADOOP_CONF_DIR"] = "/etc/hadoop/conf"`.'
        )
    files = [Path(folder) / file for folder in named.values() for file in _FILES]
    present = [file for file in files if file.is_file()]
    if not any(file.name == "yarn-site.xml" for file in present):
        words = ", ".join(f"{name}={folder!r}" for name, folder in named.items())
        raise ConfigurationError(
            f"Hadoop's configuration folder must contain a yarn-site.xml. Received: {words}, "
            f"with {', '.join(file.name for file in present) or 'none of its files'}. Copy it from "
            "the cluster, or set the folder that contains it."
        )
    found: dict[str, str] = {}
    for file in present:
        found |= parse_hadoop_settings(file.read_text("utf-8", "replace"), name=str(file))
    own = (name for name in chosen if name.startswith(_HADOOP))
    return found | {name.removeprefix(_HADOOP): chosen[name] for name in own}


def _check_java() -> None:
    """Raise if the running JVM, started for an earlier session, has another configuration."""
    from pyspark import SparkContext

    jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    if jvm is None:
        return
    known = {name: jvm.java.lang.System.getenv(name) for name in _FOLDERS}
    if any(os.environ.get(name) != known[name] for name in _FOLDERS):
        raise ConfigurationError(
            "the JVM reads HADOOP_CONF_DIR when it starts, and it is already running. "
            f"Received: HADOOP_CONF_DIR={os.environ.get('HADOOP_CONF_DIR')!r}, but the JVM has "
            f"{known['HADOOP_CONF_DIR']!r}. Restart the kernel, and set it before the first "
            "session."
        )


def _check_manager(hadoop: Mapping[str, str]) -> None:
    """Raise if no ResourceManager is reachable: Spark would retry for 15 minutes."""
    failures: list[str] = []
    for host, port in manager_addresses(hadoop):
        try:
            socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_S).close()
        except OSError as error:
            failures.append(f"{host}:{port} ({error})")
        else:
            return
    raise NetworkError(
        "YARN's ResourceManager must be reachable. Received: no answer within "
        f"{_CONNECT_TIMEOUT_S:g} s from {', '.join(failures)}. Check "
        "yarn.resourcemanager.hostname in the yarn-site.xml of HADOOP_CONF_DIR, and that this "
        "machine can reach that port."
    )


def check_ticket() -> None:
    """Check the Kerberos ticket on HDFS, if any, to raise a short error before Spark starts."""
    try:
        exists("hdfs:///")
    except PermissionError:
        raise
    except (OSError, SparkwrightError):
        return  # no HDFS, no answer, or no HDFS client


def parse_hadoop_settings(text: str, *, name: str) -> dict[str, str]:
    """Parse the settings of a file such as yarn-site.xml."""
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise ConfigurationError(
            f"Hadoop's configuration must be XML. Received: {name}: {error}. Copy the file from "
            "the cluster again."
        ) from None
    found = ((one.findtext("name"), one.findtext("value")) for one in root.iter("property"))
    return {key.strip(): (value or "").strip() for key, value in found if key}


def setting(settings: Mapping[str, str], name: str) -> str | None:
    """Return a setting with each `${…}` substituted; None if a referenced setting is missing."""
    text = settings.get(name)
    for _ in range(_MOST_SUBSTITUTIONS):
        if text is None or not (found := _VARIABLE.search(text)):
            return text or None
        inner = settings.get(found[1])
        text = None if inner is None else text.replace(found[0], inner)
    return None


def manager_addresses(settings: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return host and port of each ResourceManager; high availability has several."""
    names = [""]
    if setting(settings, f"{_MANAGER}.ha.enabled") == "true":
        given = settings.get(f"{_MANAGER}.ha.rm-ids", "")
        names = [f".{one.strip()}" for one in given.split(",")]
    found: list[tuple[str, int]] = []
    for name in names:
        # Hadoop's default is 0.0.0.0, where clients connect to the local ResourceManager.
        host = setting(settings, f"{_MANAGER}.hostname{name}") or "127.0.0.1"
        text = setting(settings, f"{_MANAGER}.address{name}") or host
        host, _, port = text.rpartition(":")
        if not port.isdigit():
            host, port = text, str(_PORT)
        found.append(("127.0.0.1" if host == "0.0.0.0" else host, int(port)))
    return found


def jars_settings(chosen: Mapping[str, str], hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return `spark.yarn.archive`, uploading the archive if missing; {} if jars are configured."""
    home = spark_home()
    system = chosen.get("spark.hadoop.fs.defaultFS") or hadoop.get("fs.defaultFS", "")
    settled = set(_DECIDING) & {*chosen, *default_settings(home)}
    if settled or not system.startswith("hdfs://"):
        return {}
    jars = sorted((home / "jars").glob("*.jar"))
    user = os.environ.get("HADOOP_USER_NAME") or getpass.getuser()
    folder = f"{system.rstrip('/')}/user/{user}/.sparkwright"
    url = f"{folder}/spark-jars-{jars_key(jars)}.zip"
    try:
        if not exists(url):
            _log.warning("Uploading Spark's jars to %s, once for all sessions.", url)
            write_jars(jars, url)
    except (OSError, SparkwrightError) as error:
        _log.warning(
            "Spark's jars cannot be stored on the cluster; each session uploads them again "
            "(%s). Upload an archive of them and set spark.yarn.archive.",
            error,
        )
        return {}
    return {"spark.yarn.archive": url}


def jars_key(jars: list[Path]) -> str:
    """Return a hash of the jars' names and sizes."""
    text = "\n".join(f"{jar.name} {jar.stat().st_size}" for jar in jars)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_jars(jars: list[Path], url: str) -> None:
    """Write a zip of `jars` that YARN's nodes can unpack as a stream."""
    # Streaming readers need "compressed" entries to find their end; level 0 saves time.
    with (
        write_atomically(url) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive,
    ):
        for jar in jars:
            archive.write(jar, jar.name)


def tag_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the application's tags with a unique one added, to find the application later."""
    _timeout_s(chosen)
    own = f"sparkwright-{secrets.token_hex(8)}"
    return {TAGS: ",".join(filter(None, [chosen.get(TAGS), own]))}


@contextmanager
def waiting_for_yarn(chosen: Mapping[str, str]) -> Generator[None]:
    """Wait for YARN while a session starts: log why it waits, and cancel it at the timeout."""
    if chosen.get("spark.master") != "yarn":
        yield
        return
    wait = _Wait(chosen[TAGS].rpartition(",")[2], _timeout_s(chosen))
    try:
        with wait:
            yield
    except Exception:
        if wait.gave_up:
            raise RunTimeoutError(
                "YARN did not start the session within `spark.sparkwright.yarnTimeout`. "
                f"Received: no container after {wait.timeout_s:g} s. YARN's diagnostics: "
                f"{wait.words} Stop other applications, request less memory or another queue "
                "(`spark.yarn.queue`), or raise the timeout."
            ) from None
        raise


def _timeout_s(chosen: Mapping[str, str]) -> float:
    text = chosen.get(TIMEOUT, str(_TIMEOUT_S))
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise ConfigurationError(
        f"`{TIMEOUT}` must be a number of seconds greater than 0. Received: {text!r}."
    )


class _Wait:
    """Monitors an application by its tag in a thread, and kills it after a timeout."""

    def __init__(self, tag: str, timeout_s: float) -> None:
        self.timeout_s, self._tag = timeout_s, tag
        self.gave_up = False
        self.words = ""
        self._client: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sparkwright-yarn", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(_END_TIMEOUT_S)

    def _watch(self) -> None:
        first_seen_s, told = 0.0, False
        try:
            while not self._ended.wait(_LOOK_AGAIN_S):
                if (report := self._report()) is None:
                    continue
                if str(report.getYarnApplicationState()) not in _WAITING:
                    return
                first_seen_s = first_seen_s or time.monotonic()
                waited_s = time.monotonic() - first_seen_s
                self.words = " ".join(str(report.getDiagnostics()).split())
                if waited_s > _TELL_AFTER_S and not told:
                    told = True
                    _log.warning("YARN has no room for this session yet: %s", self.words)
                if waited_s > self.timeout_s:
                    self.gave_up = True
                    self._client.killApplication(report.getApplicationId())
                    return
        except Exception as error:
            # Only the explanation is lost: Spark reports an unreachable YARN itself.
            _log.info("cannot read the session's state from YARN: %s", error)
        finally:
            with contextlib.suppress(Exception):
                if self._client is not None:
                    self._client.stop()

    def _report(self) -> Any:
        """Return YARN's report of the application; None before it is submitted."""
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm  # pyright: ignore[reportPrivateUsage]
        if jvm is None:
            return None
        if self._client is None:
            client = jvm.org.apache.hadoop.yarn.client.api.YarnClient.createYarnClient()
            client.init(jvm.org.apache.hadoop.yarn.conf.YarnConfiguration())
            client.start()
            self._client = client
        request = jvm.org.apache.hadoop.yarn.api.protocolrecords.GetApplicationsRequest
        wanted, tags = request.newInstance(), jvm.java.util.HashSet()
        tags.add(self._tag)
        wanted.setApplicationTags(tags)
        found = self._client.getApplications(wanted)
        return found.get(0) if found.size() else None
