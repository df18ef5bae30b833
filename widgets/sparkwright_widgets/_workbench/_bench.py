"""What an experiment has become so far: a session, loaded data, a network. No widgets."""

import threading
from collections.abc import Mapping
from typing import Any

from sparkwright import DistributedDataSet, Experiment, SparkNetwork
from sparkwright.data import DataSource
from sparkwright.experiments import prepare
from sparkwright.runs import TrainingRun


class Bench:
    """Makes what an experiment needs, once, and keeps it.

    Its methods call Spark and take their time: they are for threads of their own, or for a
    notebook's cell, never for callbacks.

    Attributes:
        spark: the session; None before it is started.
        source: where `data` came from; None before.
        data: the parts of the loaded data by name; empty before.
        rows: examples in each part.
        counts: examples in each partition of the training data.
        network: of the last run, or the last one loaded; None before.
    """

    def __init__(self, spark: Any | None = None) -> None:
        self._lock = threading.RLock()  # held while things are made, so that each is made once
        self.spark = spark
        self.source: DataSource | None = None
        self.data: dict[str, DistributedDataSet] = {}
        self.rows: dict[str, int] = {}
        self.counts: tuple[int, ...] = ()
        self.network: SparkNetwork | None = None

    def load(self, experiment: Experiment) -> Mapping[str, DistributedDataSet]:
        """Start Spark if need be, and load and count the experiment's data unless it is loaded.

        Raises:
            What `start_spark` and `DataSource.load_split` raise; what was loaded before stays.
        """
        with self._lock:
            spark = self._session(experiment)
            if self.source != experiment.data:
                parts = experiment.data.load_split(spark)
                counts = {name: tuple(part.partition_counts()) for name, part in parts.items()}
                self.data, self.source = parts, experiment.data
                self.rows = {name: sum(count) for name, count in counts.items()}
                self.counts = counts["train"]
            return self.data

    def begin(
        self, experiment: Experiment, *, resume: str | None = None, keep_weights: bool = False
    ) -> TrainingRun:
        """Load what is not loaded, and begin to train.

        Args:
            experiment: what to do.
            resume: URL of a checkpoint to go on from; default None.
            keep_weights: go on with the network there is (default False: with fresh weights).

        Raises:
            ConfigurationError: if the experiment cannot be carried out.
            What loading and `SparkNetwork.start` raise.
        """
        with self._lock:
            data = self.load(experiment)
            model = self.network.model if keep_weights and self.network is not None else None
            prepared = prepare(experiment, self.spark, data=dict(data), model=model)
            run = prepared.start(resume=resume, display=False)
            self.network = prepared.network
            return run

    def forget_data(self) -> None:
        """Load anew the next time."""
        with self._lock:
            self.source, self.data, self.rows, self.counts = None, {}, {}, ()

    def _session(self, experiment: Experiment) -> Any:
        if self.spark is None:
            self.spark = experiment.spark.start()
        return self.spark
