"""Starts a Spark session with settings that suit training, or uses the one there is."""

import atexit
import contextlib
import importlib.util
import logging
import os
import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.delegation import carry_tokens, use_keytab
from sparkwright.cluster.engine_shipping import ship_engine
from sparkwright.cluster.slots import (
    gpus_of_executor,
    is_dynamic,
    local_cluster,
    slots_at_most,
)
from sparkwright.errors import ConfigurationError
from sparkwright.options import check_count

from ._defaults import (
    default_settings,
    forget_earlier_settings,
    over,
    spark_home,
    submitted_settings,
)
from ._java import configures_log, start_java
from ._kubernetes import pod_facts, pod_settings
from ._yarn import check_ticket, tag_settings, waiting_for_yarn, yarn_settings
from .gpus import GpuTasks, gpu_settings
from .memory_parts import overhead_settings
from .secrets import LEFT_OUT, left_out, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_JAVA_VERSIONS = (17, 21)
_ALWAYS = {
    # A training task waits for nothing better: moving a partition is cheaper than idling.
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.task.maxFailures": "4",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
    # The user's own functions fail on executors too: short traces, without the JVM's part.
    "spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "true",
}
_ON_THIS_MACHINE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
}
_IN_PROCESSES = {
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
}
_ON_A_CLUSTER = {
    # Slots are counted by the executors that have come: a session is there when all have, or after
    # half a minute.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


def start_spark(
    *,
    workers: int = 2,
    cores_per_worker: int = 1,
    memory_per_worker_mb: int = 1024,
    gpus_per_executor: int = 0,
    gpus_per_worker: int = 1,
    gpu_tasks: GpuTasks = "all",
    cpu_fallback: bool = False,
    node_label: str | None = None,
    master: str | None = None,
    app_name: str = "sparkwright",
    settings: dict[str, Any] | None = None,
) -> "SparkSession":
    """Start Spark, or return the session that is already active.

    Without `master` Spark runs as `local-cluster` on this machine: one executor a worker, in
    processes of its own, as on a real cluster. In a script that `spark-submit` runs, what that was
    told counts, `master` included, unless it is given here.

    Args:
        workers: executors; default 2.
        cores_per_worker: cores of each executor; default 1.
        memory_per_worker_mb: heap of each executor, MiB; default 1024. TensorFlow's memory comes
            on top of it: on YARN and Kubernetes `spark.executor.memoryOverhead`, which by default
            has room for a network of 5 million parameters in each task slot.
        gpus_per_executor: GPUs that Spark gives each executor, one to a task; default 0. On this
            machine and on YARN a script of the kit's finds them, with nvidia-smi; a standalone
            cluster's workers, and images for Kubernetes, bring their own.
        gpus_per_worker: GPUs that a worker trains on; must be 1, the default.
        gpu_tasks: "all" (default): each task is given a GPU. "networks": only tasks that train,
            evaluate or predict, so that others run on all cores.
        cpu_fallback: train on CPUs where GPUs are missing or TensorFlow cannot use them, with a
            warning; default False: an error.
        node_label: on YARN, executors run on machines with this label; default None: on any.
        master: "local[4]", "spark://…", "yarn", "k8s://…"; default None: "local-cluster", with
            `workers`, `cores_per_worker` and `memory_per_worker_mb` filled in.
        app_name: shown in Spark's pages.
        settings: any Spark settings; they override those chosen here.

    Returns:
        The session. If one is active it is returned as it is, with a warning about settings that
        it does not have.

    Raises:
        ConfigurationError: if Java or PySpark cannot be found (says what to install), there are
            too few GPUs, the value of a setting was left out of a file, YARN's configuration or
            the keytab of Kerberos is missing, or Kubernetes is given no image.
        NetworkError: if YARN's ResourceManager does not answer.
        PermissionError: on YARN or with a keytab, if HDFS requires Kerberos and this process gets
            no ticket.
        RunTimeoutError: if YARN has no room within the seconds of `spark.sparkwright.yarnTimeout`,
            default 300.
    """
    _find_pyspark()
    from pyspark.sql import SparkSession

    submitted = submitted_settings()
    chosen = _settings(
        workers=workers,
        cores=cores_per_worker,
        memory_mb=memory_per_worker_mb,
        master=master or submitted.get("spark.master"),
        app_name=app_name,
    )
    chosen = over(chosen, submitted)
    chosen.update({key: _text(value) for key, value in (settings or {}).items()})
    chosen.update(_label_settings(node_label, chosen))
    chosen.update(_standalone_cores(chosen))
    active = SparkSession.getActiveSession()
    if active is not None:
        _check_active_gpus(active, gpus_per_executor, cpu_fallback=cpu_fallback)
        _warn_about_differences(active, master, settings or {}, workers)
        return active
    if missing := left_out(chosen):
        raise ConfigurationError(
            "Spark must be given every setting's value. Received: no values of "
            f"{', '.join(missing)}, which look secret and so were left out of the file or code. "
            "Put them into `settings`, or remove them there and keep them in Spark's "
            "spark-defaults.conf."
        )
    _find_java()
    if use_keytab(chosen):
        check_ticket()
    _check_slots(chosen)
    chosen.update(
        gpu_settings(
            gpus_per_executor,
            chosen,
            per_worker=gpus_per_worker,
            tasks=gpu_tasks,
            cpu_fallback=cpu_fallback,
        )
    )
    chosen.update(cluster_settings(chosen, submitted=bool(submitted)))
    # PySpark takes the executors' Python from the environment alone. On this machine it is this
    # very interpreter; a cluster whose Python lies elsewhere says so itself.
    python = chosen.get("spark.pyspark.python")
    if python or chosen["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
    forget_earlier_settings(chosen)
    builder: Any = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with waiting_for_yarn(chosen):
        start_java(chosen)
        session = builder.getOrCreate()
    if not configures_log(chosen):
        session.sparkContext.setLogLevel("ERROR")
    ship_engine(session)
    carry_tokens(session.sparkContext)
    if chosen["spark.master"].startswith("local-cluster"):
        _clear_at_exit(session)
    return session


def _settings(
    *, workers: int, cores: int, memory_mb: int, master: str | None, app_name: str
) -> dict[str, str]:
    check_count("workers", workers)
    check_count("cores_per_worker", cores)
    check_count("memory_per_worker_mb", memory_mb, minimum=512)
    if master == "local-cluster":
        master = None
    url = master or f"local-cluster[{workers},{cores},{memory_mb}]"
    # Retries as on a cluster; plain local[n] gives up at the first failure.
    retrying = re.sub(r"^local\[(\d+|\*)\]$", r"local[\1,4]", url)
    executor = {"spark.executor.memory": f"{memory_mb}m", "spark.executor.cores": str(cores)}
    chosen = {"spark.master": retrying, "spark.app.name": app_name, **_ALWAYS}
    if url.startswith("local"):
        chosen |= {**_ON_THIS_MACHINE, "spark.sql.shuffle.partitions": str(max(2, workers))}
    if url.startswith("local-cluster"):
        # It names the work folder. Each session counts from 0000: the second is not enough.
        pattern = f"app-%s-%04d-{uuid.uuid4().hex[:8]}"
        chosen |= {**executor, **_IN_PROCESSES, "spark.deploy.appIdPattern": pattern}
    elif not url.startswith("local"):
        chosen |= {**executor, "spark.executor.instances": str(workers), **_ON_A_CLUSTER}
    return chosen


def _standalone_cores(chosen: Mapping[str, str]) -> dict[str, str]:
    """How many cores a standalone cluster gives; by itself it would give all."""
    most = "spark.cores.max"
    if not chosen["spark.master"].startswith("spark://") or is_dynamic(chosen) or most in chosen:
        return {}
    executors, cores = chosen["spark.executor.instances"], chosen["spark.executor.cores"]
    return {most: str(int(executors) * int(cores))}


def _check_slots(chosen: Mapping[str, str]) -> None:
    """Refuse settings by which no task could ever run: Spark would wait for one for ever."""
    if slots_at_most(chosen["spark.master"], chosen) == 0:
        names = ("spark.master", "spark.cores.max", "spark.executor.cores", "spark.task.cpus")
        found = ", ".join(f"{name}={chosen[name]}" for name in names if name in chosen)
        raise ConfigurationError(
            "executors must have the cores that a task needs, and the cluster the cores of an "
            f"executor. Received: {found}. Raise the former or lower the latter."
        )


def _label_settings(label: str | None, chosen: dict[str, str]) -> dict[str, str]:
    if label is None:
        return {}
    if chosen["spark.master"] != "yarn":
        raise ConfigurationError(
            "only YARN knows labels of machines. Received: "
            f"node_label={label!r}, master={chosen['spark.master']!r}. Leave it out, or choose "
            '`master="yarn"`; Kubernetes has `spark.kubernetes.node.selector.…`.'
        )
    return {"spark.yarn.executor.nodeLabelExpression": label}


def _check_active_gpus(session: "SparkSession", gpus: int, *, cpu_fallback: bool) -> None:
    """Refuse to train on CPUs, or fewer GPUs, only because a session happens to be there."""
    found = gpus_of_executor(session.sparkContext.getConf())
    if found < gpus and not cpu_fallback:
        raise ConfigurationError(
            "a Spark session that is already active must have the GPUs that are asked for. "
            f"Received: gpus_per_executor={gpus}, a session with {found}. Call `spark.stop()` "
            "first, or choose CPUs: `gpus_per_executor=0`."
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _find_pyspark() -> None:
    if importlib.util.find_spec("pyspark") is not None:
        return
    import findspark

    try:
        findspark.init()
    except (ValueError, IndexError, OSError) as error:
        raise ConfigurationError(
            "PySpark must be importable, or SPARK_HOME must point to a Spark installation. "
            f"Received: SPARK_HOME={os.environ.get('SPARK_HOME')!r} ({error}). Install it with "
            "`pip install pyspark`, or set SPARK_HOME."
        ) from None


def _find_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    remedy = "Install Java 17 or 21 (Debian, Ubuntu: apt-get install openjdk-17-jre-headless)"
    if java is None or not Path(java).exists():
        raise ConfigurationError(
            f"Spark needs Java 17 or 21 on the PATH or in JAVA_HOME. Received: JAVA_HOME={home!r}, "
            f"java={shutil.which('java')!r}. {remedy}."
        )
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', answer.stderr + answer.stdout)
    if found and int(found[1]) not in _JAVA_VERSIONS:
        _log.warning("Spark 4 is tested with Java 17 and 21; %s is version %s.", java, found[1])


def _warn_about_differences(
    session: "SparkSession", master: str | None, settings: dict[str, Any], workers: int
) -> None:
    conf = session.sparkContext.getConf()
    wanted = {key: _text(value) for key, value in settings.items()}
    there = str(session.sparkContext.master)
    local = local_cluster(there)
    if master is not None:
        wanted["spark.master"] = master
    elif local is not None and local.workers < workers:
        wanted["spark.master"] = re.sub(r"\d+", str(workers), there, count=1)
    # A value that was left out of a file is not known to differ from the one that is there.
    different = {
        key: conf.get(key)
        for key, value in wanted.items()
        if conf.get(key) != value and not (value == LEFT_OUT and conf.contains(key))
    }
    if different:
        _log.warning(
            "a Spark session is already active and is used as it is; it has %s where %s was asked "
            "for. Call `spark.stop()` first to start another.",
            without_secrets(different),
            without_secrets({key: wanted[key] for key in different}),
        )


def _clear_at_exit(session: "SparkSession") -> None:
    """Remove what local-cluster leaves in SPARK_HOME/work, which nothing else does."""
    folder = spark_home() / "work" / session.sparkContext.applicationId

    def clear() -> None:
        with contextlib.suppress(Exception, KeyboardInterrupt):
            session.stop()
        shutil.rmtree(folder, ignore_errors=True)

    atexit.register(clear)


def cluster_settings(chosen: Mapping[str, str], *, submitted: bool) -> dict[str, str]:
    """Settings for the cluster manager of `spark.master`; none for this machine or a standalone.

    What `spark-submit` has started has found the cluster, and sent Spark's jars.

    Raises:
        ConfigurationError: if a cluster's configuration or image is missing, or a value wrong.
        NetworkError: if it does not answer.
    """
    if not chosen["spark.master"].startswith(("yarn", "k8s:")):
        return {}
    elsewhere = default_settings(spark_home()).keys()
    return {
        **overhead_settings(chosen, elsewhere=elsewhere),
        **({} if submitted else yarn_settings(chosen)),
        **(tag_settings(chosen) if chosen["spark.master"] == "yarn" else {}),
        **pod_settings(chosen, pod_facts(), elsewhere=elsewhere),
    }
