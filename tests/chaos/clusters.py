"""A session whose executors are on hosts of their own, each with a small disk."""

import subprocess
from contextlib import ExitStack, contextmanager

from tests.chaos import counting
from tests.chaos.laboratory import Laboratory
from tests.support.hosts import Hosts
from tests.support.standalone import StandaloneCluster

import sparkwright as sw

NAMES = tuple(f"worker-{number + 1}" for number in range(counting.WORKERS))
# Spark's own files and the workers' data take a few megabytes.
_DISK_MB = 48


@contextmanager
def laboratory_on_hosts(root):
    """A driver's host, a Master's and the Workers' behind a switch; Spark on them.

    Args:
        root: for the files of experiments.
    """
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts(["master", *NAMES]))
        cluster = stack.enter_context(
            StandaloneCluster(hosts=hosts, workers=NAMES, worker_timeout_s=4)
        )
        disks = {name: cluster.folder / f"{name}-files" / "local" for name in NAMES}
        for folder in disks.values():
            options = f"size={_DISK_MB}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", folder], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", folder], check=False)
        laboratory = Laboratory(
            lambda settings: sw.start_spark(
                workers=len(NAMES),
                master=cluster.url,
                app_name="sparkwright-chaos",
                settings=cluster.driver_settings | settings,
            ),
            root,
            executors=len(NAMES),
            hosts=hosts,
            host_names=NAMES,
            disk=disks.__getitem__,
        )
        stack.callback(laboratory.close)
        yield laboratory
