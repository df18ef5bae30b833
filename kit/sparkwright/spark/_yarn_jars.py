"""Spark's own jars on the cluster's file system, sent once instead of for each session."""

import getpass
import hashlib
import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

from sparkwright.errors import SparkwrightError
from sparkwright.storage._files import exists, write_atomically

from ._spark_defaults import default_settings, spark_home

_log = logging.getLogger(__name__)
_DECIDING = ("spark.yarn.archive", "spark.yarn.jars")
_CHUNK_BYTES = 1 << 20


def jars_settings(chosen: Mapping[str, str], hadoop: Mapping[str, str]) -> dict[str, str]:
    """`spark.yarn.archive`, which is written if it is not there; nothing if jars are settled.

    It lies in the user's folder, as `.sparkwright/spark-jars-KEY.zip`, and is the same for all
    sessions with the same jars. Machines keep what they have fetched.

    Args:
        chosen: the session's settings.
        hadoop: those of Hadoop's configuration.
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
            with jar.open("rb") as source, archive.open(jar.name, "w") as place:
                while chunk := source.read(_CHUNK_BYTES):
                    place.write(chunk)
