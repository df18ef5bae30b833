"""A session whose executors are on hosts of their own, each with small disks."""

import subprocess
import tempfile
from contextlib import ExitStack, contextmanager

from tests.chaos import counting
from tests.chaos.laboratory import Laboratory
from tests.support.hosts import Hosts
from tests.support.standalone import StandaloneCluster

import sparkwright as sw

NAMES = tuple(f"worker-{number + 1}" for number in range(counting.WORKERS))
# Spark's own files and the workers' data take a few megabytes.
_DISK_MB = 48
DRIVER = "driver"


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
        places = [(name, kind) for name in NAMES for kind in ("local", "tmp")]
        disks = {place: cluster.folder / f"{place[0]}-files" / place[1] for place in places}
        disks[DRIVER, "tmp"] = root / "tmp"
        disks[DRIVER, "tmp"].mkdir()
        for folder in disks.values():
            options = f"size={_DISK_MB}m"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "chaos", folder], check=True)
            stack.callback(subprocess.run, ["umount", "--lazy", folder], check=False)
        stack.callback(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = str(disks[DRIVER, "tmp"])
        own = {"spark.local.dir": tempfile.tempdir}
        laboratory = Laboratory(
            lambda settings: sw.start_spark(
                workers=len(NAMES),
                master=cluster.url,
                app_name="sparkwright-chaos",
                settings=cluster.driver_settings | own | settings,
            ),
            root,
            executors=len(NAMES),
            hosts=hosts,
            host_names=NAMES,
            disks=disks,
        )
        stack.callback(laboratory.close)
        yield laboratory
