"""YARN: a session's settings, the check that the cluster answers, and the wait for containers."""

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

from ._defaults import default_settings, spark_home

_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
_FILES = ("core-site.xml", "hdfs-site.xml", "yarn-site.xml")
_CONNECT_TIMEOUT_S = 10.0
_HADOOP = "spark.hadoop."
_PORT = 8032
_VARIABLE = re.compile(r"\$\{([\w.-]+)\}")
_MOST_SUBSTITUTIONS = 20  # Hadoop's own limit, against circles
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
    """Settings for executors on YARN; none for another master.

    Raises:
        ConfigurationError: if no configuration of a cluster is found.
        NetworkError: if its ResourceManager does not answer.
        PermissionError: if HDFS requires Kerberos and there is no valid ticket.
    """
    if chosen.get("spark.master") != "yarn":
        return {}
    hadoop = _hadoop_settings(chosen)
    _check_java()
    _check_manager(hadoop)
    if hadoop.get("hadoop.security.authentication") == "kerberos":
        check_ticket()
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
    files = [Path(folder) / file for folder in named.values() for file in _FILES]
    present = [file for file in files if file.is_file()]
    if not any(file.name == "yarn-site.xml" for file in present):
        words = ", ".join(f"{name}={folder!r}" for name, folder in named.items())
        raise ConfigurationError(
            f"the folder of Hadoop's configuration must have a yarn-site.xml. Received: {words}, "
            f"with {', '.join(file.name for file in present) or 'none of its files'}. Copy it from "
            "the cluster, or name the folder that has it."
        )
    found: dict[str, str] = {}
    for file in present:
        found |= parse_hadoop_settings(file.read_text("utf-8", "replace"), name=str(file))
    own = (name for name in chosen if name.startswith(_HADOOP))
    return found | {name.removeprefix(_HADOOP): chosen[name] for name in own}


def _check_java() -> None:
    """Refuse a Java that an earlier session has started, if it does not know this cluster."""
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
    """Refuse a ResourceManager that cannot be reached: Spark would ask for a quarter of an hour."""
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


def check_ticket() -> None:
    """Look at HDFS if there is one: the error is one sentence, those of Java are pages.

    Raises:
        PermissionError: if it requires Kerberos and this process has no valid ticket.
    """
    try:
        exists("hdfs:///")
    except PermissionError:
        raise
    except (OSError, SparkwrightError):
        return  # none, none that answers, or no client of it here


def parse_hadoop_settings(text: str, *, name: str) -> dict[str, str]:
    """Settings of one file such as yarn-site.xml, by name.

    Raises:
        ConfigurationError: if it is no XML.
    """
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
    """A setting whose `${…}` are filled in from the others; None if one of these is unset."""
    text = settings.get(name)
    for _ in range(_MOST_SUBSTITUTIONS):
        if text is None or not (found := _VARIABLE.search(text)):
            return text or None
        inner = settings.get(found[1])
        text = None if inner is None else text.replace(found[0], inner)
    return None


def manager_addresses(settings: Mapping[str, str]) -> list[tuple[str, int]]:
    """Host and port of each ResourceManager that applications may be handed to.

    Several where they stand in for one another. Without any setting it is this machine.
    """
    names = [""]
    if setting(settings, f"{_MANAGER}.ha.enabled") == "true":
        given = settings.get(f"{_MANAGER}.ha.rm-ids", "")
        names = [f".{one.strip()}" for one in given.split(",")]
    found: list[tuple[str, int]] = []
    for name in names:
        # Clients connect to a machine's own ResourceManager there, by Hadoop's default.
        host = setting(settings, f"{_MANAGER}.hostname{name}") or "127.0.0.1"
        text = setting(settings, f"{_MANAGER}.address{name}") or host
        host, _, port = text.rpartition(":")
        if not port.isdigit():
            host, port = text, str(_PORT)
        found.append(("127.0.0.1" if host == "0.0.0.0" else host, int(port)))
    return found


def jars_settings(chosen: Mapping[str, str], hadoop: Mapping[str, str]) -> dict[str, str]:
    """`spark.yarn.archive`, which is written if it is not there; nothing if jars are settled.

    It lies in the user's folder, as `.sparkwright/spark-jars-KEY.zip`, and is the same for all
    sessions with the same jars. Machines keep what they have fetched.
    """
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
            _log.warning("Spark's jars are being sent to %s, once for all sessions.", url)
            write_jars(jars, url)
    except (OSError, SparkwrightError) as error:
        _log.warning(
            "Spark's jars cannot be kept on the cluster, so that each session sends them anew "
            "(%s). Set spark.yarn.archive to an archive of them there.",
            error,
        )
        return {}
    return {"spark.yarn.archive": url}


def jars_key(jars: list[Path]) -> str:
    """What tells one set of jars from another: their names and sizes."""
    text = "\n".join(f"{jar.name} {jar.stat().st_size}" for jar in jars)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def write_jars(jars: list[Path], url: str) -> None:
    """Write a zip of `jars` that YARN's machines unpack while they read it."""
    # Jars are compressed already, but only a "compressed" entry tells a reader where it ends.
    with (
        write_atomically(url) as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive,
    ):
        for jar in jars:
            archive.write(jar, jar.name)


def tag_settings(chosen: Mapping[str, str]) -> dict[str, str]:
    """A tag of the application's own, after those that it has, by which it is found again.

    Raises:
        ConfigurationError: if the time to wait is none.
    """
    _timeout_s(chosen)
    own = f"sparkwright-{secrets.token_hex(8)}"
    return {TAGS: ",".join(filter(None, [chosen.get(TAGS), own]))}


@contextmanager
def waiting_for_yarn(chosen: Mapping[str, str]) -> Generator[None]:
    """While a session starts: tell why YARN lets it wait, and give it up in the end.

    Raises:
        RunTimeoutError: if YARN had it wait for more than the seconds of
            `spark.sparkwright.yarnTimeout`, by default 300; with YARN's words.
    """
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
                "YARN must have room for a session within `spark.sparkwright.yarnTimeout`. "
                f"Received: the driver waited {wait.timeout_s:g} s for YARN, which says: "
                f"{wait.words} End other applications, ask for less memory or another queue "
                "(`spark.yarn.queue`), or wait longer."
            ) from None
        raise


def _timeout_s(chosen: Mapping[str, str]) -> float:
    text = chosen.get(TIMEOUT, str(_TIMEOUT_S))
    with contextlib.suppress(ValueError):
        if 0 < float(text) < float("inf"):
            return float(text)
    raise ConfigurationError(f"`{TIMEOUT}` must be seconds above 0. Received: {text!r}.")


class _Wait:
    """Watches an application by its tag, on a thread; kills it if it waits for too long."""

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
            # Only the explanation is lost: a YARN that cannot be asked is met by Spark as well.
            _log.info("YARN cannot be asked for the state of the session: %s", error)
        finally:
            with contextlib.suppress(Exception):
                if self._client is not None:
                    self._client.stop()

    def _report(self) -> Any:
        """What YARN knows of the application; None before it was handed over."""
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
