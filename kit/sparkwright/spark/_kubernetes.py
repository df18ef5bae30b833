"""Spark settings for Kubernetes: executors in pods, and optionally the driver in a pod."""

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path

from sparkwright.errors import ConfigurationError

_IMAGE = "spark.kubernetes.container.image"
_EXECUTOR_IMAGE = "spark.kubernetes.executor.container.image"
_NAMESPACE = "spark.kubernetes.namespace"
_ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pod_settings(
    chosen: Mapping[str, str], pod: Mapping[str, str], *, elsewhere: Collection[str] = ()
) -> dict[str, str]:
    """Return the settings of `driver_pod` that are neither chosen nor set `elsewhere`."""
    if not chosen.get("spark.master", "").startswith("k8s:"):
        return {}
    known = set(chosen) | set(elsewhere)  # given, or in Spark's own configuration
    if not {_IMAGE, _EXECUTOR_IMAGE} & known:
        raise ConfigurationError(
            "executors on Kubernetes need an image. Received: no "
            f'{_IMAGE}. Set it: `settings={{"{_IMAGE}": "registry/image:tag"}}`.'
        )
    return {name: value for name, value in pod.items() if value and name not in known}


def driver_pod() -> dict[str, str]:
    """Return the settings that follow from the pod of this process; {} outside Kubernetes."""
    if "KUBERNETES_SERVICE_HOST" not in os.environ:
        return {}
    name = os.environ.get("HOSTNAME") or socket.gethostname()
    file = _ACCOUNT_FILES / "namespace"
    try:
        address = socket.gethostbyname(name)
    except OSError:
        address = ""
    return {
        # Kubernetes deletes executors with the pod that owns them, even if the driver crashes.
        "spark.kubernetes.driver.pod.name": name,
        "spark.driver.host": address,
        "spark.driver.bindAddress": "0.0.0.0",
        _NAMESPACE: file.read_text(encoding="utf-8").strip() if file.is_file() else "",
    }
