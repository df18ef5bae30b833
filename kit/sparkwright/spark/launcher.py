"""Starts a run's workers, each as a Spark job of its own."""

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of, is_connect
from sparkwright.cluster.job_errors import LostExecutors, translated
from sparkwright.cluster.jobs import SparkJob, run_partition
from sparkwright.cluster.slots import (
    check_slots,
    executor_resources,
    is_local,
    slots_at_most,
    task_slots,
    wait_for_slots,
)
from sparkwright.data import DistributedDataSet, TfData
from sparkwright.errors import ConfigurationError, WorkerError
from sparkwright.masters import MeshConfig, SharedTrainingMaster, TrainingMaster
from sparkwright.mesh.port import address_in
from sparkwright.runs.begin import Claim
from sparkwright.timeline import PhaseCode
from sparkwright.workers.failure import failure_of
from sparkwright.workers.protocol import Failure

from ._layout import DataLayout, data_facts, without_training_data
from ._tasks import Element, training_task
from .gpus import check_gpus, on_gpus

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession

# A vanished host's task is started elsewhere when Spark has noticed, and its trainer is ready.
_NOTICED_WITHIN_S = 60.0
_LOOPBACK = "127.0.0.1"


class SparkLauncher:
    """Starts a run's workers, each as a Spark job of one task.

    Ordinary tasks, not barrier tasks: the others continue while one is started again.
    """

    def __init__(
        self,
        spark: "SparkSession",
        *,
        run: str,
        data: DistributedDataSet | TfData,
        validation: DistributedDataSet | None,
        master: TrainingMaster,
        export: Callable[["RDD[bytes]"], "RDD[str]"] | None,
    ) -> None:
        """Check slots and addresses; nothing starts before `prepare`.

        Raises:
            SlotsError: if there can never be as many task slots as workers.
            ConfigurationError: if no address lies in `network_mask`, tasks share GPUs, or Spark
                would start copies of them.
        """
        check_gpus(spark)
        _check_speculation(spark)
        self.slots = task_slots(spark)
        self.required = _workers(spark, master, slots=self.slots)
        self.workers = master.workers_at_most(self.required)
        url = str(context_of(spark).master)
        check_slots(self.required, slots_at_most(url, context_of(spark).getConf()), url)
        application = str(context_of(spark).applicationId)
        self.claim = Claim(application, self.required, self.slots)
        self.bind_host = bind_address(spark, master.mesh)
        self.advertised_host = advertised_address(spark, master.mesh)
        self.worker_host = worker_address(spark, master.mesh)
        self.consume = True
        self.layout: DataLayout | None = None
        self.facts: dict[str, Any] = {}
        self.stream = data if isinstance(data, TfData) else None
        self._elements: RDD[Element] | None = None
        self._spark, self._run, self._master = spark, run, master
        self._data, self._validation, self._export = data, validation, export
        self._tasks: Any = None
        self._joining: Any = None  # tasks without data
        self._jobs: dict[int, list[SparkJob]] = {}  # by worker
        self._changed = threading.Condition()
        self._lost = LostExecutors(spark)
        self._cancelled = False
        conf = context_of(spark).getConf()
        self.max_failures = int(conf.get("spark.task.maxFailures") or 4)
        self.replacement_timeout_s = _network_timeout_s(spark) + _NOTICED_WITHIN_S
        self._tag = f"sparkwright-{run}"

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...] | None:
        """Count and lay out the data; returns examples of each worker; see `Launcher.prepare`."""
        # The jobs of this thread, from here on, can be cancelled by it.
        context_of(self._spark).addJobTag(self._tag)
        self.slots = wait_for_slots(self._spark, self.required, cancelled=lambda: self._cancelled)
        try:
            if isinstance(self._data, TfData):
                self._elements = without_training_data(
                    self._spark, self._validation, self.required, enter
                )
                return self._data.rows(self.required)
            self.layout = DataLayout(
                data=self._data,
                validation=self._validation,
                master=self._master,
                workers=self.required,
                export=self._export,
                enter=enter,
            )
        except Exception as error:
            raise translated(error) from None
        self._elements = self.layout.elements
        self.facts = data_facts(self.layout.plan, self._data, self._validation)
        return tuple(self.layout.plan.target_counts)

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Submit a job of one task for `worker`; see `Launcher.launch`.

        One job for each worker, not one for all: when a task fails for good, or Spark runs a stage
        again because an executor with shuffle output is gone, the other workers are not affected.
        Speculation never copies the task of a job that has only one.
        """
        with self._changed:
            if self._cancelled:
                return
            if self._tasks is None:
                assert self._elements is not None
                task = training_task(template)
                self._lost.__enter__()
                self._tasks = on_gpus(self._elements.mapPartitionsWithIndex(task))
            tasks, partition = self._tasks, worker
            if worker >= self.required:
                tasks, partition = self._without_data(template), worker - self.required
            replaced = list(self._jobs.get(worker, ())) if replaces else []
            job = SparkJob(
                self._spark,
                partial(run_partition, tasks, partition),
                description=f"train {self._run}, worker {worker}",
                ended=lambda job: self._job_ended(worker, job, ended),
            )
            self._jobs.setdefault(worker, []).append(job)
        for old in replaced:
            threading.Thread(target=old.cancel, name=old.group, daemon=True).start()

    def _without_data(self, template: Any) -> Any:
        """Tasks of workers that join: of an RDD of their own, so they never wait for a shuffle."""
        if self._joining is None:
            nothing: RDD[Element] = context_of(self._spark).parallelize(
                list[Any](), self.workers - self.required
            )
            task = training_task(template, first=self.required)
            self._joining = on_gpus(nothing.mapPartitionsWithIndex(task))
        return self._joining

    def withdraw(self, worker: int) -> None:
        """Cancel the worker's jobs, whose task may wait for a slot; see `Launcher.withdraw`."""
        with self._changed:
            jobs = list(self._jobs.get(worker, ()))
        for job in jobs:
            job.cancel()

    def finish(self, timeout_s: float) -> bool:
        """Wait until no job is left; see `Launcher.finish`."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(self._jobs.values()), timeout_s)

    def _job_ended(
        self, worker: int, job: SparkJob, ended: Callable[[Failure | None], None]
    ) -> None:
        with self._changed:
            self._jobs[worker].remove(job)
            self._changed.notify_all()
        failure: Failure | None = None
        if job.error is not None and not job.cancelled:
            error = translated(job.error, because=self._lost.reason())
            host = error.host if isinstance(error, WorkerError) else "an executor"
            failure = failure_of(error, worker=worker, host=host)
        elif job.error is None and job.value:
            failure = Failure(**job.value[0])
        ended(failure)

    def cancel(self) -> None:
        """Cancel all jobs: Spark kills their Python workers, whose trainers let go."""
        self._cancelled = True
        context_of(self._spark).cancelJobsWithTag(self._tag)
        with self._changed:
            jobs = [job for jobs in self._jobs.values() for job in jobs]
        for job in jobs:
            job.cancel()

    def clean_up(self) -> None:
        """Unpersist, and stop watching executors."""
        if self._tasks is not None:
            self._lost.__exit__(None, None, None)
        if self.layout is not None:
            self.layout.release()


def _check_speculation(spark: "SparkSession") -> None:
    """Refuse the one setting by which Spark copies the task of a job that has only one."""
    conf = context_of(spark).getConf()
    name = "spark.speculation.task.duration.threshold"
    if conf.get("spark.speculation") == "true" and (value := conf.get(name)):
        raise ConfigurationError(
            "Spark must not start copies of workers, which run for as long as training does. "
            f"Received: spark.speculation=true, {name}={value}. Leave out one of the two."
        )


def _network_timeout_s(spark: "SparkSession") -> float:
    """After how long without heartbeats Spark considers an executor lost."""
    if is_connect(spark):
        return 120.0  # Spark's default: only the JVM reads the units of the setting
    context: Any = context_of(spark)
    text = context.getConf().get("spark.network.timeout") or "120s"
    return float(context._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(text))


def _workers(spark: "SparkSession", master: TrainingMaster, *, slots: int | None) -> int:
    """The master's number of workers, or as many as it chooses for this cluster."""
    if isinstance(master, SharedTrainingMaster):
        return master.worker_count(slots=slots, **executor_resources(spark))
    return master.workers or slots or context_of(spark).defaultParallelism


def bind_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """The driver's address to listen on.

    Raises:
        ConfigurationError: if this machine has no address in `network_mask`.
    """
    if mesh.network_mask is not None:
        return address_in(mesh.network_mask)
    if is_local(spark):
        return _LOOPBACK
    if is_connect(spark):
        return context_of(spark).address()
    return socket.gethostbyname(
        context_of(spark).getConf().get("spark.driver.host") or socket.gethostname()
    )


def advertised_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """The driver's address as workers are told."""
    return mesh.controller_address or bind_address(spark, mesh)


def worker_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """Where workers listen: an address, a network to choose theirs from, or empty.

    Empty stands for the address that leads to the driver.
    """
    if mesh.network_mask is not None:
        return mesh.network_mask
    return _LOOPBACK if is_local(spark) else ""
