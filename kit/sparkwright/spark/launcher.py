"""Launch of a run's workers, each as a separate Spark job."""

import socket
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from sparkwright.cluster.connect import context_of, is_connect
from sparkwright.cluster.job_errors import LostExecutors, translated
from sparkwright.cluster.jobs import SparkJob, run_partition
from sparkwright.cluster.session_end import session_error, unless_ended
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

# Time for Spark to notice a lost host, restart the task elsewhere and start its trainer.
_NOTICED_WITHIN_S = 60.0
_LOOPBACK = "127.0.0.1"


class SparkLauncher:
    """Starts the workers of a run, each as a Spark job of one task.

    These are ordinary tasks, not barrier tasks: the other workers continue during a restart.
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
        """Check slots and addresses; `prepare` starts the first job."""
        check_gpus(spark)
        _check_speculation(spark)
        self.slots = task_slots(spark)
        self.required = _workers(spark, master, slots=self.slots)
        self.workers = master.workers_at_most(self.required)
        url, application = str(context_of(spark).master), str(context_of(spark).applicationId)
        most = slots_at_most(url, context_of(spark).getConf())
        check_slots(self.required, most, url)
        # With dynamic allocation, the slots that Spark may request.
        self.claim: Claim | None = Claim(application, self.required, self.slots or most)
        self.bind_host = bind_address(spark, master.mesh)
        self.advertised_host = advertised_address(spark, master.mesh)
        self.worker_host = worker_address(spark, master.mesh)
        self.consume, self.validates = True, validation is not None
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
        """Lay out the data; return the examples of each worker; see `Launcher.prepare`."""
        context = context_of(self._spark)
        try:
            # Tag all later jobs of this thread, so that `cancel` reaches them.
            context.addJobTag(self._tag)
            cancelled = partial(getattr, self, "_cancelled")
            self.slots = wait_for_slots(self._spark, self.required, cancelled=cancelled)
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
            raise session_error(self._spark, error) or translated(error) from None
        self._elements = self.layout.elements
        self.facts = data_facts(self.layout.plan, self._data, self._validation)
        return tuple(self.layout.plan.target_counts)

    def launch(
        self, worker: int, template: Any, ended: Callable[[Failure | None], None], *, replaces: bool
    ) -> None:
        """Submit a job of one task for `worker`; see `Launcher.launch`.

        Each worker has a separate job, so that a failed task, or a stage that Spark reruns after
        losing shuffle output, does not affect other workers. Speculation never copies the only task
        of a job.
        """
        with self._changed:
            if self._cancelled:
                return
            if (error := session_error(self._spark)) is not None:
                raise error
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
        """Return tasks of joining workers, from a separate RDD that does not wait for a shuffle."""
        if self._joining is None:
            nothing: RDD[Element] = context_of(self._spark).parallelize(
                list[Any](), self.workers - self.required
            )
            task = training_task(template, first=self.required)
            self._joining = on_gpus(nothing.mapPartitionsWithIndex(task))
        return self._joining

    def withdraw(self, worker: int) -> None:
        """Cancel the worker's jobs, including tasks waiting for a slot; see `Launcher.withdraw`."""
        with self._changed:
            jobs = list(self._jobs.get(worker, ()))
        for job in jobs:
            job.cancel()

    def finish(self, timeout_s: float) -> bool:
        """Wait until all jobs have ended; see `Launcher.finish`."""
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
        """Cancel all jobs: Spark kills their Python workers, and the trainers stop."""
        self._cancelled = True
        with unless_ended(self._spark):
            context_of(self._spark).cancelJobsWithTag(self._tag)
        with self._changed:
            jobs = [job for jobs in self._jobs.values() for job in jobs]
        for job in jobs:
            job.cancel()

    def clean_up(self) -> None:
        """Unpersist the data and stop monitoring executors."""
        if self._tasks is not None:
            self._lost.__exit__(None, None, None)
        if self.layout is not None:
            with unless_ended(self._spark):
                self.layout.release()


def _check_speculation(spark: "SparkSession") -> None:
    """Raise if the one setting is active with which Spark copies a job's only task."""
    conf = context_of(spark).getConf()
    name = "spark.speculation.task.duration.threshold"
    if conf.get("spark.speculation") == "true" and (value := conf.get(name)):
        raise ConfigurationError(
            "Spark must not start copies of workers, which run as long as the training. "
            f"Received: spark.speculation=true, {name}={value}. Remove one of the two."
        )


def _network_timeout_s(spark: "SparkSession") -> float:
    """Return the seconds without heartbeats after which Spark considers an executor lost."""
    if is_connect(spark):
        return 120.0  # Spark's default: the setting's units need the JVM
    context: Any = context_of(spark)
    text = context.getConf().get("spark.network.timeout") or "120s"
    return float(context._jvm.org.apache.spark.network.util.JavaUtils.timeStringAsSec(text))


def _workers(spark: "SparkSession", master: TrainingMaster, *, slots: int | None) -> int:
    """Return the master's number of workers, or its choice for this cluster."""
    if isinstance(master, SharedTrainingMaster):
        return master.worker_count(slots=slots, **executor_resources(spark))
    return master.workers or slots or context_of(spark).defaultParallelism


def bind_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """Return the address on which the driver listens."""
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
    """Return the driver's address for workers."""
    return mesh.controller_address or bind_address(spark, mesh)


def worker_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """Return where workers listen: an address, a network, or "" for the route to the driver."""
    if mesh.network_mask is not None:
        return mesh.network_mask
    return _LOOPBACK if is_local(spark) else ""
