"""The settings of a small YARN for tests: on loopback, in one folder, quick to notice. Pure."""

from collections.abc import Iterable, Mapping

_ALL = "100"


def manager_settings(*, ports: Mapping[str, int], folder: str, memory_mb: int) -> dict[str, str]:
    """What the ResourceManager, all NodeManagers and clients get.

    Args:
        ports: of the ResourceManager's services, by the part of the setting's name; "" is that for
            clients.
        folder: for the files of all.
        memory_mb: the most that a container may have, MiB.
    """
    services = {
        f"yarn.resourcemanager.{service + '.' if service else ''}address": f"127.0.0.1:{port}"
        for service, port in ports.items()
    }
    return services | {
        "yarn.resourcemanager.hostname": "127.0.0.1",
        "yarn.resourcemanager.scheduler.class": (
            "org.apache.hadoop.yarn.server.resourcemanager.scheduler.capacity.CapacityScheduler"
        ),
        "yarn.scheduler.minimum-allocation-mb": "64",
        "yarn.scheduler.maximum-allocation-mb": str(memory_mb),
        "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": "200",
        "yarn.nm.liveness-monitor.expiry-interval-ms": "10000",
        "yarn.am.liveness-monitor.expiry-interval-ms": "20000",
        "yarn.resourcemanager.am.max-attempts": "1",
        "yarn.node-labels.enabled": "true",
        "yarn.node-labels.fs-store.root-dir": f"file://{folder}/labels",
        "yarn.node-labels.configuration-type": "distributed",
    }


def node_settings(*, folder: str, memory_mb: int, cores: int, label: str | None) -> dict[str, str]:
    """What one NodeManager has of its own.

    Args:
        folder: of its own.
        memory_mb: that it gives containers, MiB.
        cores: that it gives containers.
        label: of its machine, or None.
    """
    settings = {
        "yarn.nodemanager.hostname": "127.0.0.1",
        "yarn.nodemanager.address": "127.0.0.1:0",
        "yarn.nodemanager.localizer.address": "127.0.0.1:0",
        "yarn.nodemanager.webapp.address": "127.0.0.1:0",
        "yarn.nodemanager.collector-service.address": "127.0.0.1:0",
        "yarn.nodemanager.local-dirs": f"{folder}/local",
        "yarn.nodemanager.log-dirs": f"{folder}/logs",
        "yarn.nodemanager.resource.memory-mb": str(memory_mb),
        "yarn.nodemanager.resource.cpu-vcores": str(cores),
        "yarn.nodemanager.container-executor.class": (
            "org.apache.hadoop.yarn.server.nodemanager.DefaultContainerExecutor"
        ),
        # TensorFlow reserves addresses that it never uses.
        "yarn.nodemanager.vmem-check-enabled": "false",
        "yarn.nodemanager.pmem-check-enabled": "true",
        # Else the NodeManager leaves it to cgroups, which are not used here.
        "yarn.nodemanager.resource.memory.enforced": "false",
        "yarn.nodemanager.container-monitor.interval-ms": "500",
        "yarn.nodemanager.container-monitor.procfs-tree.smaps-based-rss.enabled": "false",
        "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
        "yarn.nodemanager.sleep-delay-before-sigkill.ms": "2000",
        "yarn.nodemanager.delete.debug-delay-sec": "0",
        "yarn.nodemanager.env-whitelist": "JAVA_HOME",
    }
    if label is not None:
        settings["yarn.nodemanager.node-labels.provider"] = "config"
        settings["yarn.nodemanager.node-labels.provider.configured-node-partition"] = label
    return settings


def scheduler_settings(labels: Iterable[str]) -> dict[str, str]:
    """capacity-scheduler.xml: one queue, which may use every machine.

    Args:
        labels: of machines.
    """
    queues = ("root", "root.default")
    settings = {
        "yarn.scheduler.capacity.root.queues": "default",
        "yarn.scheduler.capacity.root.default.capacity": "100",
        # Of the memory that masters of applications may take: they are small, but so is this.
        "yarn.scheduler.capacity.maximum-am-resource-percent": "1.0",
        "yarn.scheduler.capacity.resource-calculator": (
            "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator"
        ),
        "yarn.scheduler.capacity.node-locality-delay": "-1",
    }
    for queue in queues:
        prefix = f"yarn.scheduler.capacity.{queue}.accessible-node-labels"
        settings[prefix] = ",".join(labels)
        settings |= {f"{prefix}.{label}.capacity": _ALL for label in labels}
    return settings
