"""Starts a run's workers as the tasks of one Spark job."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkwright.data import DistributedDataSet
from sparkwright.masters import SharedTrainingMaster, TrainingMaster
from sparkwright.runs._peer_engine import error_of
from sparkwright.runs._protocol import Failure
from sparkwright.timeline import PhaseCode

from ._addresses import advertised_address, bind_address, worker_address
from ._data_facts import data_facts
from ._errors import translated
from ._gpus import check_gpus, on_gpus
from ._jobs import SparkJob
from ._layout import DataLayout
from ._slot_waiting import wait_for_slots
from ._slots import check_slots, executor_resources, slots_at_most, task_slots
from ._tasks import training_task

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import SparkSession


class SparkLauncher:
    """Ordinary tasks, not barrier tasks: Spark starts a lost one again, the others go on."""

    def __init__(
        self,
        spark: "SparkSession",
        *,
        run: str,
        data: DistributedDataSet,
        validation: DistributedDataSet | None,
        master: TrainingMaster,
        export: Callable[["RDD[bytes]"], "RDD[str]"] | None,
    ) -> None:
        """Check slots and addresses; nothing starts before `prepare`.

        Raises:
            SlotsError: if there can never be as many task slots as workers.
            ConfigurationError: if no address lies in `network_mask`, or tasks share GPUs.
        """
        check_gpus(spark)
        self.slots = task_slots(spark)
        self.workers = _workers(spark, master, slots=self.slots)
        url = str(spark.sparkContext.master)
        check_slots(self.workers, slots_at_most(url, spark.sparkContext.getConf()), url)
        self.bind_host = bind_address(spark, master.mesh)
        self.advertised_host = advertised_address(spark, master.mesh)
        self.worker_host = worker_address(spark, master.mesh)
        self.consume = True
        self.layout: DataLayout | None = None
        self.facts: dict[str, Any] = {}
        self._spark, self._run, self._master = spark, run, master
        self._data, self._validation, self._export = data, validation, export
        self._job: SparkJob | None = None
        self._cancelled = False
        self._tag = f"sparkwright-{run}"

    def prepare(self, enter: Callable[[PhaseCode], None]) -> tuple[int, ...]:
        """Count and lay out the data; returns examples of each worker; see `Launcher.prepare`."""
        # The jobs of this thread, from here on, can be cancelled by it.
        self._spark.sparkContext.addJobTag(self._tag)
        self.slots = wait_for_slots(self._spark, self.workers, cancelled=lambda: self._cancelled)
        try:
            self.layout = DataLayout(
                data=self._data,
                validation=self._validation,
                master=self._master,
                workers=self.workers,
                export=self._export,
                enter=enter,
            )
        except Exception as error:
            raise translated(error) from None
        self.facts = data_facts(self.layout.plan, self._data, self._validation)
        return tuple(self.layout.plan.target_counts)

    def run(self, template: Any) -> None:
        """Run the job to its end; see `Launcher.run`."""
        assert self.layout is not None
        if self._cancelled:
            return
        tasks = on_gpus(self.layout.elements.mapPartitionsWithIndex(training_task(template)))
        self._job = SparkJob(self._spark, tasks.collect, description=f"train {self._run}")
        for failure in self._job.wait():
            raise error_of(Failure(**failure))

    def cancel(self) -> None:
        """Cancel all jobs: Spark kills their Python workers, whose trainers let go."""
        self._cancelled = True
        self._spark.sparkContext.cancelJobsWithTag(self._tag)
        if self._job is not None:
            self._job.cancel()

    def clean_up(self) -> None:
        """Unpersist."""
        if self.layout is not None:
            self.layout.release()


def _workers(spark: "SparkSession", master: TrainingMaster, *, slots: int | None) -> int:
    """The master's number of workers, or as many as it chooses for this cluster."""
    if isinstance(master, SharedTrainingMaster):
        return master.worker_count(slots=slots, **executor_resources(spark))
    return master.workers or slots or spark.sparkContext.defaultParallelism
