"""Spark settings for Kubernetes: executors in pods, and optionally the driver in a pod."""

import os
import socket
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from sparkwright.errors import ConfigurationError
from sparkwright.options import check_count

_IMAGE = "spark.kubernetes.container.image"
_EXECUTOR_IMAGE = "spark.kubernetes.executor.container.image"
_NAMESPACE = "spark.kubernetes.namespace"
_SHARED = "spark.kubernetes.executor.volumes.emptyDir.shm"
_ACCOUNT_FILES = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class PodFacts(NamedTuple):
    """The pod of this process; `namespace` is that of its service account, or ""."""

    name: str
    address: str
    namespace: str


def kubernetes_settings(
    image: str,
    *,
    namespace: str | None = None,
    service_account: str | None = None,
    driver_host: str | None = None,
    driver_port: int | None = None,
    block_manager_port: int | None = None,
    shared_memory_mb: int | None = None,
    pull_secret: str | None = None,
    node_selector: Mapping[str, str] | None = None,
    python: str | None = None,
) -> dict[str, str]:
    """Return settings for `start_spark(master="k8s://…")` with the driver in a notebook.

    Args:
        image: image of the executors, with Spark, this version of Python, TensorFlow and the
            network's packages.
        namespace: namespace of the pods; default None: that of the notebook's pod, or "default".
        service_account: the driver's account. It must be allowed to create, list, watch and delete
            pods and config maps. Default None: that of the notebook's pod or the kubeconfig.
        driver_host: host name or address of the driver for executors, such as a headless service;
            default None: the address of the notebook's pod.
        driver_port: port of the driver, required by a service; default None: any free port.
        block_manager_port: port of the driver's block manager; default None: any free port.
        shared_memory_mb: size of /dev/shm in executors, MiB; part of their memory. Default None:
            the container runtime's, often 64 MiB, which is too small for NCCL with several GPUs.
        pull_secret: name of the secret for the image registry; default None.
        node_selector: node labels required for executors; default None: any node.
        python: Python of the executors; default None: "python3" of the image.

    Raises:
        ConfigurationError: if `image` is empty, or a port or size is invalid.

    Example:
        >>> kubernetes_settings("registry/train:1", namespace="ml")
        {'spark.kubernetes.container.image': 'registry/train:1', 'spark.kubernetes.namespace': 'ml'}
    """
    if not image.strip():
        raise ConfigurationError(
            f"`image` must name an image for executors. Received: image={image!r}. Use an image "
            "with Spark, Python and TensorFlow."
        )
    for name, number in (("driver_port", driver_port), ("block_manager_port", block_manager_port)):
        check_count(name, number, maximum=65_535, optional=True)
    check_count("shared_memory_mb", shared_memory_mb, optional=True)
    account = "spark.kubernetes.authenticate"
    shared = None if shared_memory_mb is None else f"{shared_memory_mb}Mi"
    optional = {
        _NAMESPACE: namespace,
        f"{account}.serviceAccountName": service_account,
        f"{account}.driver.serviceAccountName": service_account,
        "spark.driver.host": driver_host,
        # The driver cannot bind to the name of a service.
        "spark.driver.bindAddress": None if driver_host is None else "0.0.0.0",
        "spark.driver.port": driver_port,
        "spark.driver.blockManager.port": block_manager_port,
        f"{_SHARED}.mount.path": shared and "/dev/shm",
        f"{_SHARED}.options.medium": shared and "Memory",
        f"{_SHARED}.options.sizeLimit": shared,
        "spark.kubernetes.container.image.pullSecrets": pull_secret,
        "spark.pyspark.python": python,
    }
    for label, value in (node_selector or {}).items():
        optional[f"spark.kubernetes.executor.node.selector.{label}"] = value
    given = {name: str(value) for name, value in optional.items() if value is not None}
    return {_IMAGE: image} | given


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
            f'{_IMAGE}. Set it: `settings=sw.spark.kubernetes_settings("registry/image:tag")`.'
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
