"""Starts a session on a Kubernetes that runs no pods; prints what Spark asked it for, as JSON.

Run by its path, in a process of its own: a session may be active where the tests run.
"""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.yarn.fake_kubernetes import FakeKubernetes

import sparkwright as sw

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "1s",
    "spark.kubernetes.authenticate.oauthToken": "none",
    "spark.executorEnv.TF_NUM_INTRAOP_THREADS": "2",
    "spark.executor.resource.gpu.discoveryScript": "/opt/spark/getGpusResources.sh",
}


def main():
    os.environ.pop("KUBERNETES_SERVICE_HOST", None)
    with FakeKubernetes() as cluster:
        shared = "spark.kubernetes.executor.volumes.emptyDir.shm"
        pods = {
            "spark.kubernetes.container.image": "registry/train:1",
            "spark.kubernetes.namespace": "ml",
            f"{shared}.mount.path": "/dev/shm",
            f"{shared}.options.medium": "Memory",
            f"{shared}.options.sizeLimit": "512Mi",
            "spark.kubernetes.executor.node.selector.pool": "gpu",
            "spark.pyspark.python": "/opt/venv/bin/python",
        }
        spark = sw.start_spark(
            master=cluster.master,
            workers=2,
            cores_per_worker=2,
            memory_per_worker_mb=1024,
            gpus_per_executor=2,
            settings={**pods, **SETTINGS},
        )
        deadline_s = time.monotonic() + 60
        while len(cluster.pods) < 2 and time.monotonic() < deadline_s:
            time.sleep(0.1)
        spark.stop()
        posted = cluster.posted
    print(json.dumps(posted))


if __name__ == "__main__":
    main()
