"""The pod of Kubernetes that this process runs in."""

import os
import socket
from pathlib import Path

from ._kubernetes import PodFacts

_ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")


def pod_facts() -> PodFacts | None:
    """The pod that this process runs in; None outside Kubernetes."""
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
