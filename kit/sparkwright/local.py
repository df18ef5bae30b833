"""Training on one machine without Spark, with worker processes on this machine."""

import contextlib
import itertools
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, Self, Unpack

from sparkwright._interrupts import interrupts_held
from sparkwright._local_launcher import LocalLauncher
from sparkwright.data import (
    DataSet,
    LocalData,
    Normalizer,
    TableSchema,
    TfData,
    read_minibatches,
)
from sparkwright.data.frames import FrameColumns
from sparkwright.data.in_memory import conversion_of, in_memory
from sparkwright.errors import ConfigurationError, SparkwrightError
from sparkwright.masters import TrainingMaster
from sparkwright.networks.building import model_of
from sparkwright.networks.normalizing import check_normalizer
from sparkwright.options import check_count
from sparkwright.runs import TrainingRun
from sparkwright.runs.begin import (
    RunBeginning,
    check_direct,
    check_untrained,
    refuse_joining,
)
from sparkwright.runs.fit_options import (
    FitOptions,
    checked_options,
    takes_fit_options,
    training_and_validation,
)
from sparkwright.runs.launching import count_text
from sparkwright.runs.peer_engine import PeerEngine
from sparkwright.workers.data_checks import check_data
from sparkwright.workers.gpus import find_gpus, leave_gpus_to_workers
from sparkwright.workers.pool import TrainerPool, driver_secret

_numbers = itertools.count(1)
# The wrappers of this process share its worker processes, which end when the last wrapper closes.
_open_wrappers: "weakref.WeakSet[ParallelWrapper]" = weakref.WeakSet()
_opening = threading.Lock()


def check_local(master: TrainingMaster) -> None:
    """Raise if an option of the master needs Spark.

    Raises:
        ConfigurationError: naming the option.
    """
    check_direct(master, "`ParallelWrapper` has no Spark")


class ParallelWrapper:
    """Trains a Keras model with several worker processes on this machine, without Spark.

    Workers, training masters and results are the same as on Spark. Use it as a context manager or
    call `close`. Until then, the worker processes stay for later runs, also of other wrappers.

    Attributes:
        model: the keras.Model; training changes it in place.
        master: the training master.
        workers: the maximum number of worker processes, including those that join later.
        required: the number of workers that hold data and must be running.
        devices: each worker's device: "cpu" or "gpu-ADDRESS".
        normalizer: applied to all training and validation data; None: none.

    Example:
        with ParallelWrapper(model, ParameterAveragingTrainingMaster(), workers=2) as wrapper:
            wrapper.fit(dataset, epochs=5)
    """

    def __init__(
        self,
        model: Any,
        master: TrainingMaster,
        *,
        workers: int | None = None,
        cores_per_worker: int | None = None,
        devices: str | Sequence[int | str] = "cpu",
        normalizer: Normalizer | None = None,
    ) -> None:
        """Prepare; processes start with the first `fit`.

        Args:
            model: a compiled keras.Model, or a function without arguments that builds and compiles
                one; see `SparkNetwork`.
            master: the training master; repartitioning is always balanced here.
            workers: number of worker processes that hold the data. Default None: the master's
                number, or one per GPU or core. Up to `max_workers` of the master join when their
                processes are ready.
            cores_per_worker: default None: the machine's cores divided evenly.
            devices: "cpu" (default); "gpu": all GPUs that CUDA_VISIBLE_DEVICES includes; or a GPU
                address for each worker: with [0, 0], two workers share GPU 0. With GPUs, call
                `leave_gpus_to_workers` before you build the first model.
            normalizer: applied to all data, including `validation`, before the workers receive it.
                Default None: none.

        Raises:
            ConfigurationError: if `workers` is not positive, there are fewer GPUs than workers, the
                master needs Spark or `normalizer` is not a normalizer.
        """
        cores = os.cpu_count() or 1
        gpus = _addresses(devices)
        self.required = workers or master.workers or (len(gpus) or cores)
        check_count("workers", self.required)
        self.workers = master.workers_at_most(self.required)
        if gpus and len(gpus) < self.workers:
            raise ConfigurationError(
                "`devices` must name a GPU for each worker. Received: "
                f"workers={self.workers}, GPUs {', '.join(gpus)}. Use `workers={len(gpus)}`, "
                '`devices="cpu"`, or name a GPU that workers share twice: `devices=[0, 0]`.'
            )
        self.devices = tuple(f"gpu-{address}" for address in gpus[: self.workers]) or (
            ("cpu",) * self.workers
        )
        check_local(master)
        model = model_of(model)
        check_normalizer(normalizer, model)
        self.model, self.master, self.normalizer = model, master, normalizer
        self._cores = cores_per_worker or max(1, cores // self.workers)
        self._pool: TrainerPool | None = None
        self._active: TrainingRun | None = None

    def __enter__(self) -> Self:
        """Keep the worker processes of all wrappers running until `close`."""
        self._open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @takes_fit_options
    def fit(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> Any:
        """Train the model in place and return Keras' `History`; blocks. See `start`."""
        with interrupts_held():
            run = self.start(data, y, **options)
            run.wait()
        return run.epoch_history

    @takes_fit_options
    def start(self, data: Any, y: Any = None, **options: Unpack[FitOptions]) -> TrainingRun:
        """Start training and return immediately.

        Args:
            data: a DataSet; the result of `read_csv`, `read_images`, `read_csv_sequences` and the
                like; a list or iterator of DataSets, such as from `read_minibatches`; the URL of
                exported minibatches; a pandas DataFrame; a `TfData`; or a tuple (features, labels)
                or (features, labels, weights) of NumPy arrays, pandas DataFrames and Series, or
                dicts of arrays by name.
            y: labels if `data` contains only features: `fit(x, y)` equals `fit((x, y))`. Default
                None: `data` contains the labels.
            **options: see `FitOptions`; `validation` accepts the same types except `TfData`.

        Raises:
            ConfigurationError: if another run trains this model, or an option is invalid.
        """
        given = checked_options(options)
        check_untrained(self.model)
        data = data if y is None else (data, y)
        _, training, validating = training_and_validation(self.model, data, given, _examples)
        if isinstance(training, TfData):
            refuse_joining(self.master)
        if self.normalizer is not None:
            training = self.normalizer.transform(training)
            validating = None if validating is None else self.normalizer.transform(validating)
        beginning = RunBeginning(
            f"local-{next(_numbers)}",
            model=self.model,
            master=self.master,
            layout=lambda: training.layout,
            options=given,
            previous=None if self._active is None else self._active.adapted,
        )
        check_data(self.model, training, validating)
        launcher = LocalLauncher(
            pool=self._open(),
            devices=self.devices,
            required=self.required,
            cores=self._cores,
            data=training,
            validation=validating,
        )
        return beginning.run(
            PeerEngine(beginning, launcher),
            title=f"{self.model.name} on {count_text(launcher, 'process', 'processes')}",
            workers=self.workers,
            configuration={},
            display=given["display"],
            when_begun=lambda run: setattr(self, "_active", run),
        )

    @property
    def history(self) -> Any:
        """Keras `History` of the last run, see `TrainingRun.epoch_history`; None without a run."""
        return None if self._active is None else self._active.epoch_history

    def _open(self) -> TrainerPool:
        with _opening:
            self._pool = self._pool or TrainerPool(owner=os.getpid(), secret=driver_secret())
            _open_wrappers.add(self)
            return self._pool

    def close(self) -> None:
        """Stop an active run and end the worker processes."""
        try:
            if self._active is not None and not self._active.finished:
                self._active.stop()
                # `wait` of the user raises the run's error.
                with contextlib.suppress(SparkwrightError):
                    self._active.wait(30.0)
        finally:
            with _opening:
                _open_wrappers.discard(self)
                if self._pool is not None and not _open_wrappers:
                    self._pool.close()
                self._pool = None


def _addresses(devices: str | Sequence[int | str]) -> tuple[str, ...]:
    """Return the addresses of the GPUs to train on; empty for CPUs."""
    if devices == "cpu":
        return ()
    if isinstance(devices, str) and devices != "gpu":
        raise ConfigurationError(
            '`devices` must be "cpu", "gpu" or the addresses of GPUs, such as [0, 1]. Received: '
            f"devices={devices!r}."
        )
    found = find_gpus() if devices == "gpu" else tuple(str(address) for address in devices)
    if not found:
        raise ConfigurationError(
            "`devices` must name at least one GPU. Received: "
            f"devices={devices!r}. Look at nvidia-smi and CUDA_VISIBLE_DEVICES, or use "
            '`devices="cpu"`.'
        )
    leave_gpus_to_workers()
    return found


def _examples(
    data: Any,
    option: str,
    chosen: FrameColumns | None = None,
    schema: TableSchema | None = None,
) -> LocalData:
    """Read all examples of `data`, of any type that `ParallelWrapper.start` accepts."""
    if isinstance(data, str | os.PathLike):
        data = read_minibatches(data)
    if isinstance(data, Iterator | list):
        parts: list[Any] = list(data)  # pyright: ignore[reportUnknownArgumentType]
        several = parts and all(isinstance(part, DataSet) for part in parts)
        data = DataSet.concatenate(parts) if several else tuple(parts)
    found = in_memory(data, option=option, chosen=chosen, schema=schema)
    if found is None:
        raise ConfigurationError(
            f"`{option}` must be a DataSet, several of them, what `read_csv` and the like return, "
            "a URL of exported minibatches, a pandas DataFrame, or a tuple (features, labels) of "
            f"arrays. Received: {type(data).__name__}.{conversion_of(data)} A DistributedDataSet "
            "is for SparkNetwork; `data.collect()` brings it here. For files of another format: "
            "`sparkwright.data.read_minibatches`."
        )
    return found
