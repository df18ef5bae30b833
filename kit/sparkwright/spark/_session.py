"""Start a Spark session with settings for training, or use the active one."""

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

from ._java import (
    check_room,
    configures_log,
    default_settings,
    forget_earlier_settings,
    forget_ended_java,
    over,
    own_home,
    spark_home,
    start_java,
    submitted_settings,
)
from ._kubernetes import driver_pod, pod_settings
from ._yarn import check_ticket, tag_settings, waiting_for_yarn, yarn_settings
from .gpus import GpuTasks, gpu_settings
from .memory_parts import overhead_settings
from .secrets import LEFT_OUT, left_out, without_secrets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)
_JAVA_VERSIONS = (17, 21)
_ALWAYS = {
    # Schedule training tasks immediately: moving a partition is cheaper than an idle executor.
    "spark.locality.wait": "0s",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.task.maxFailures": "4",
    "spark.python.worker.reuse": "true",
    "spark.ui.showConsoleProgress": "false",
    # Shorten tracebacks of user functions that fail on executors: omit the JVM part.
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
# Without memory a JVM answers some calls and not others; a run notices its end.
_DRIVER_OPTIONS, _DRIVER_ENDS = "spark.driver.defaultJavaOptions", "-XX:+ExitOnOutOfMemoryError"
_ON_A_CLUSTER = {
    # Task slots are counted on registered executors: wait until all have registered, or for Spark's
    # limit of 30 s.
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
}


def start_spark(
    *,
    workers: int = 2,
    cores_per_worker: int = 1,
    memory_per_worker_mb: int = 1024,
    gpus_per_executor: int = 0,
    gpu_tasks: GpuTasks = "all",
    cpu_fallback: bool = False,
    node_label: str | None = None,
    master: str | None = None,
    app_name: str = "sparkwright",
    settings: dict[str, Any] | None = None,
) -> "SparkSession":
    """Start Spark, or return the session that is already active.

    Without `master`, Spark runs as `local-cluster` on this machine: each executor is a separate
    process, as on a real cluster. In a script started by `spark-submit`, its settings and
    `master` apply unless overridden here.

    Args:
        workers: number of executors; default 2.
        cores_per_worker: cores of each executor; default 1.
        memory_per_worker_mb: heap of each executor, MiB; default 1024. TensorFlow's memory is
            additional. On YARN and Kubernetes it is `spark.executor.memoryOverhead`, which by
            default suffices for a network of 5 million parameters in each task slot.
        gpus_per_executor: GPUs of each executor, one per task; default 0. On this machine and on
            YARN, a discovery script that calls nvidia-smi finds them. Standalone clusters and
            Kubernetes images need their own discovery.
        gpu_tasks: "all" (default): each task gets a GPU. "networks": only tasks that train,
            evaluate or predict get one; other tasks run on all cores.
        cpu_fallback: train on CPUs with a warning if GPUs are missing or TensorFlow cannot use
            them; default False: raise an error.
        node_label: YARN node label of the executors' machines; default None: any machine.
        master: "local[4]", "spark://…", "yarn", "k8s://…"; default None: "local-cluster", with
            `workers`, `cores_per_worker` and `memory_per_worker_mb` filled in.
        app_name: shown in the Spark UI.
        settings: additional Spark settings; they override all others.

    Returns:
        The session. An active session is returned unchanged, with a warning that lists differing
        settings.

    Raises:
        ConfigurationError: if Java or PySpark is missing (the message names the package to
            install), there are too few GPUs, a secret setting has no value, YARN's configuration or
            the Kerberos keytab is missing, or Kubernetes has no image.
        NetworkError: if YARN's ResourceManager does not answer.
        PermissionError: on YARN or with a keytab, if HDFS requires Kerberos and this process has no
            valid ticket.
        RunTimeoutError: if YARN does not allocate containers within
            `spark.sparkwright.yarnTimeout` seconds, default 300.
    """
    _find_pyspark()
    from pyspark.sql import SparkSession

    forget_ended_java()
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
            "each Spark setting needs a value. Received: no values for "
            f"{', '.join(missing)}, which look secret and were left out of the file or code. "
            "Pass them in `settings`, or remove them from the file and keep them in "
            "spark-defaults.conf."
        )
    _find_java()
    check_room()
    if use_keytab(chosen):
        check_ticket()
    _check_slots(chosen)
    chosen.update(
        gpu_settings(
            gpus_per_executor,
            chosen,
            tasks=gpu_tasks,
            cpu_fallback=cpu_fallback,
        )
    )
    chosen.update(cluster_settings(chosen, submitted=bool(submitted)))
    # PySpark reads the executors' Python from the environment only. On this machine, use the
    # current interpreter; on a cluster, the cluster's default unless a setting names another.
    python = chosen.get("spark.pyspark.python")
    if python or chosen["spark.master"].startswith("local"):
        os.environ["PYSPARK_PYTHON"] = python or sys.executable
    forget_earlier_settings(chosen)
    builder: Any = SparkSession.builder
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with own_home(chosen["spark.master"]), waiting_for_yarn(chosen):
        start_java(chosen)
        session = builder.getOrCreate()
    if not configures_log(chosen):
        session.sparkContext.setLogLevel("ERROR")
    ship_engine(session)
    carry_tokens(session.sparkContext)
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
    # Retry tasks as on a cluster; plain local[n] fails at the first error.
    retrying = re.sub(r"^local\[(\d+|\*)\]$", r"local[\1,4]", url)
    executor = {"spark.executor.memory": f"{memory_mb}m", "spark.executor.cores": str(cores)}
    chosen = {"spark.master": retrying, "spark.app.name": app_name, **_ALWAYS}
    given = default_settings(spark_home()).get(_DRIVER_OPTIONS, "")
    chosen[_DRIVER_OPTIONS] = f"{given} {_DRIVER_ENDS}".strip()
    if url.startswith("local"):
        chosen |= {**_ON_THIS_MACHINE, "spark.sql.shuffle.partitions": str(max(2, workers))}
    if url.startswith("local-cluster"):
        # The name of the work folder. Sessions started within one second would share an ID.
        pattern = f"app-%s-%04d-{uuid.uuid4().hex[:8]}"
        chosen |= {**executor, **_IN_PROCESSES, "spark.deploy.appIdPattern": pattern}
    elif not url.startswith("local"):
        chosen |= {**executor, "spark.executor.instances": str(workers), **_ON_A_CLUSTER}
    return chosen


def _standalone_cores(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return `spark.cores.max` for a standalone cluster, whose default is all cores."""
    most = "spark.cores.max"
    if not chosen["spark.master"].startswith("spark://") or is_dynamic(chosen) or most in chosen:
        return {}
    executors, cores = chosen["spark.executor.instances"], chosen["spark.executor.cores"]
    return {most: str(int(executors) * int(cores))}


def _check_slots(chosen: Mapping[str, str]) -> None:
    """Raise if the settings allow no task slot: Spark would wait forever."""
    if slots_at_most(chosen["spark.master"], chosen) == 0:
        names = ("spark.master", "spark.cores.max", "spark.executor.cores", "spark.task.cpus")
        found = ", ".join(f"{name}={chosen[name]}" for name in names if name in chosen)
        raise ConfigurationError(
            "each executor needs the cores of one task, and the cluster the cores of one "
            f"executor. Received: {found}. Raise the cores or lower `spark.task.cpus`."
        )


def _label_settings(label: str | None, chosen: dict[str, str]) -> dict[str, str]:
    if label is None:
        return {}
    if chosen["spark.master"] != "yarn":
        raise ConfigurationError(
            "`node_label` needs YARN. Received: "
            f"node_label={label!r}, master={chosen['spark.master']!r}. Remove it, or set "
            '`master="yarn"`; on Kubernetes, set `spark.kubernetes.node.selector.…`.'
        )
    return {"spark.yarn.executor.nodeLabelExpression": label}


def _check_active_gpus(session: "SparkSession", gpus: int, *, cpu_fallback: bool) -> None:
    """Raise if the active session has fewer GPUs than requested and CPUs are not allowed."""
    found = gpus_of_executor(session.sparkContext.getConf())
    if found < gpus and not cpu_fallback:
        raise ConfigurationError(
            "the active Spark session has fewer GPUs than requested. "
            f"Received: gpus_per_executor={gpus}, a session with {found}. Call `spark.stop()` "
            "first, or train on CPUs: `gpus_per_executor=0`."
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
    # A value that was left out of a file cannot be compared with the active one.
    different = {
        key: conf.get(key)
        for key, value in wanted.items()
        if conf.get(key) != value and not (value == LEFT_OUT and conf.contains(key))
    }
    if different:
        _log.warning(
            "a Spark session is already active and is used unchanged; it has %s instead of %s. "
            "Call `spark.stop()` first to start another.",
            without_secrets(different),
            without_secrets({key: wanted[key] for key in different}),
        )


def cluster_settings(chosen: Mapping[str, str], *, submitted: bool) -> dict[str, str]:
    """Return settings for YARN or Kubernetes; none for other masters."""
    if not chosen["spark.master"].startswith(("yarn", "k8s:")):
        return {}
    elsewhere = default_settings(spark_home()).keys()
    return {
        **overhead_settings(chosen, elsewhere=elsewhere),
        **({} if submitted else yarn_settings(chosen)),  # `spark-submit` has set up YARN
        **(tag_settings(chosen) if chosen["spark.master"] == "yarn" else {}),
        **pod_settings(chosen, driver_pod(), elsewhere=elsewhere),
    }
