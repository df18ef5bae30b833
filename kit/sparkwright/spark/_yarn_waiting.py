"""How long YARN may let a session wait for its first container, which Spark would do for ever."""

import contextlib
import logging
import secrets
import threading
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from sparkwright.errors import ConfigurationError, RunTimeoutError

_log = logging.getLogger(__name__)
TAGS = "spark.yarn.tags"
TIMEOUT = "spark.sparkwright.yarnTimeout"
_TIMEOUT_S = 300.0
_TELL_AFTER_S = 15.0
_LOOK_AGAIN_S = 1.0
_END_TIMEOUT_S = 10.0
_WAITING = {"NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED"}


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

    Nothing for another master.

    Args:
        chosen: the session's settings; `spark.sparkwright.yarnTimeout` among them says for how
            many seconds YARN may let it wait, by default 300.

    Raises:
        RunTimeoutError: if YARN had it wait for longer; with YARN's words.
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
    def __init__(self, tag: str, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self.gave_up = False
        self.words = ""
        self._tag = tag
        self._client: Any = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="sparkwright-yarn", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        self._thread.join(_END_TIMEOUT_S)

    def _watch(self) -> None:
        first_seen_s: float | None = None
        told = False
        try:
            while not self._ended.wait(_LOOK_AGAIN_S):
                report = self._report()
                if report is None:
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
