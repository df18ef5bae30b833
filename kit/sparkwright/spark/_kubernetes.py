"""Spark settings for Kubernetes: executors in pods, and optionally the driver in a pod."""

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from sparkwright.errors import ConfigurationError

_IMAGE = "spark.kubernetes.container.image"
_EXECUTOR_IMAGE = "spark.kubernetes.executor.container.image"
_NAMESPACE = "spark.kubernetes.namespace"
_ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class PodFacts(NamedTuple):
    """The pod of this process; `namespace` is that of its service account, or ""."""

    name: str
    address: str
    namespace: str


def pod_settings(
    chosen: Mapping[str, str], pod: PodFacts | None, *, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Return Kubernetes settings derived from the driver's pod; {} for other masters."""
    if not chosen.get("spark.master", "").startswith("k8s:"):
        return {}
    known = set(chosen) | set(elsewhere)  # given, or in Spark's own configuration
    if not {_IMAGE, _EXECUTOR_IMAGE} & known:
        raise ConfigurationError(
            "executors on Kubernetes need an image. Received: no "
            f'{_IMAGE}. Set it: `settings={{"{_IMAGE}": "registry/image:tag"}}`.'
        )
    if pod is None:
        return {}
    found = {
        # Kubernetes deletes executors with the pod that owns them, even if the driver crashes.
        "spark.kubernetes.driver.pod.name": pod.name,
        "spark.driver.host": pod.address,
        "spark.driver.bindAddress": "0.0.0.0",
        _NAMESPACE: pod.namespace,
    }
    return {name: value for name, value in found.items() if value and name not in known}


def pod_facts() -> PodFacts | None:
    """Return facts of this process' pod; None outside Kubernetes."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return None
    name = os.environ.get("HOSTNAME") or socket.gethostname()
    file = _ACCOUNT_FILES / "namespace"
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = ""
    namespace = file.read_text(encoding="utf-8").strip() if file.is_file() else ""
    return PodFacts(name=name, address=address, namespace=namespace)
