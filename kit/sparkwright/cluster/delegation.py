"""Kerberos: HDFS delegation tokens for the tasks of a job."""

import base64
import contextlib
import functools
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from sparkwright.errors import ConfigurationError

# Local property of a job: tokens in Hadoop's format, as base64.
TOKENS = "spark.sparkwright.hadoopTokens"
_FILE = "HADOOP_TOKEN_FILE_LOCATION"
_log = logging.getLogger(__name__)
_KEYTAB, _PRINCIPAL = "spark.kerberos.keytab", "spark.kerberos.principal"
_NAMENODE_PORT = 8020
# By default, a NameNode accepts an unrenewed token for one day.
_NEW_AFTER_S = 3600.0
_obtaining = threading.Lock()
# Spark context -> (time obtained, tokens as base64).
_obtained: WeakKeyDictionary[Any, tuple[float, str]] = WeakKeyDictionary()


def use_keytab(settings: Mapping[str, str]) -> bool:
    """Log this process' HDFS client in by the keytab in `settings`; return whether there is one."""
    if (given := settings.get(_KEYTAB)) is None:
        return False
    keytab = re.sub(r"^(file|local):(//)?", "", given)
    principal = settings.get(_PRINCIPAL)
    if principal is None or not os.access(keytab, os.R_OK):
        raise ConfigurationError(
            f"`{_KEYTAB}` must be a readable file, and `{_PRINCIPAL}` its "
            f"principal. Received: {given!r} and {principal!r}. Set both."
        )
    os.environ.setdefault("KRB5_CLIENT_KTNAME", os.path.abspath(keytab))
    return True


def carry_tokens(context: Any) -> None:
    """Attach tokens, at most an hour old, to the next jobs of this thread, if Hadoop uses Kerberos.

    They cover `fs.defaultFS` and `spark.kerberos.access.hadoopFileSystems`. Without a ticket there
    are no tokens; tasks that need them raise errors.
    """
    java = getattr(context, "_jvm", None)
    if java is None or not java.org.apache.hadoop.security.UserGroupInformation.isSecurityEnabled():
        return
    with _obtaining:
        obtained_s, tokens = _obtained.get(context, (0.0, ""))
        if not tokens or time.monotonic() > obtained_s + _NEW_AFTER_S:
            try:
                tokens = _new_tokens(context, java)
                _obtained[context] = time.monotonic(), tokens
            except Exception as error:
                _log.warning("No new delegation tokens for this job: %s", error)
    # Spark redacts the property in its event log if the configuration has a setting of its name.
    context._jsc.sc().conf().set(TOKENS, "")
    context.setLocalProperty(TOKENS, tokens)


def _new_tokens(context: Any, java: Any) -> str:
    scala, hadoop = context._jsc.sc(), java.org.apache.hadoop
    credentials = hadoop.security.Credentials()
    manager = java.org.apache.spark.deploy.security.HadoopDelegationTokenManager
    manager(scala.conf(), scala.hadoopConfiguration(), None).obtainDelegationTokens(credentials)
    others = scala.conf().get("spark.kerberos.access.hadoopFileSystems", "")
    for url in filter(None, [scala.hadoopConfiguration().get("fs.defaultFS"), *others.split(",")]):
        _name_by_host(credentials, java.java.net.URI(url.strip()), scala, hadoop)
    out = java.java.io.ByteArrayOutputStream()
    credentials.writeTokenStorageToStream(java.java.io.DataOutputStream(out))
    if not credentials.numberOfTokens():
        return ""
    if context.master.startswith(("spark://", "local-cluster")):
        # For these masters, Spark does not send tokens to executors. A private method.
        with contextlib.suppress(Exception):
            scala.schedulerBackend().updateDelegationTokens(out.toByteArray())
    return base64.b64encode(out.toByteArray()).decode()


def _name_by_host(credentials: Any, uri: Any, scala: Any, hadoop: Any) -> None:
    """Add a token under the URL's host: Java uses the IP address, our client the host."""
    if uri.getScheme() != "hdfs":
        return
    text = hadoop.io.Text
    system = hadoop.fs.FileSystem.get(uri, scala.hadoopConfiguration())
    token = credentials.getToken(text(system.getCanonicalServiceName()))
    if token is None or uri.getHost() is None or str(token.getService()).startswith("ha-hdfs:"):
        return
    port = _NAMENODE_PORT if uri.getPort() < 0 else uri.getPort()
    named = token.copyToken()
    named.setService(text(f"{uri.getHost()}:{port}"))
    credentials.addToken(text(f"sparkwright {uri}"), named)


def use_tokens_of_job() -> None:
    """In a task whose job carries tokens, configure this process' HDFS client to use them."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    task: Any = TaskContext.get()
    if task is not None and (text := task.getLocalProperty(TOKENS)):
        _use(text)


@functools.lru_cache(maxsize=1)
def _use(text: str) -> None:
    # The client reads a file at each connection. This one is in memory, exists as long as the
    # process, and is visible to child processes.
    descriptor = os.memfd_create("hadoop-tokens")
    os.write(descriptor, base64.b64decode(text))
    os.environ[_FILE] = f"/proc/{os.getpid()}/fd/{descriptor}"
