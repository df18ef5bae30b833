"""Trackers: log the metrics of runs to MLflow, TensorBoard, Weights & Biases and similar tools."""

import contextlib
import copy
import json
import os
import re
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Mapping
from importlib import import_module, util
from types import SimpleNamespace
from typing import Any

import numpy as np

from sparkwright._process import Process
from sparkwright.errors import ConfigurationError
from sparkwright.networks.signature import Spec, is_graph, signature_of
from sparkwright.workers.histograms import Histogram

Values = Mapping[str, float]
_PROCESS = "sparkwright.process"  # MLflow's tag: which process trains
_LONGEST_TAG = 5000  # characters of MLflow


class Tracker:
    """Base class of trackers, which receive the metrics of runs. Override the methods you need.

    Each run calls them on a shallow copy, on a separate thread of the driver. The first exception
    is logged as a warning. If `begin` raises, no other method is called.

    Attributes:
        name: the tracker's name in warnings and `run.status.tracked`; default "": the class name.
        every_s: minimum seconds between calls of `step`; default 1.
        wait_s: seconds that the end of the run waits for `end` to return; default 10.
    """

    name: str = ""
    every_s: float = 1.0
    wait_s: float = 10.0

    def check(self) -> None:
        """Raise a ConfigurationError if the tracker cannot work; `start` calls it."""

    def begin(self, run: Any, parameters: Mapping[str, Any]) -> str | None:
        """Called when a `TrainingRun` begins; return its id in the tracker, for `run.status`.

        `parameters` are epochs, workers, loss, optimizer, and the training master's non-default
        settings, by dotted names.
        """

    def step(self, step: int, values: Values, workers: Mapping[int, Values]) -> None:
        """Called after new minibatches; `step` is the number that one worker has trained.

        `values` are means over the workers, by the columns of `run.history`; "examples_per_s" is
        the sum of all workers. `workers` maps each worker to its own values.
        """

    def epoch(self, epoch: int, values: Values) -> None:
        """Called after each complete epoch (from 1); `values` are those of Keras `History`."""

    def histograms(self, step: int, found: Mapping[str, Histogram]) -> None:
        """Called with new histograms by name, such as "weights/dense/kernel"."""

    def end(self, state: str) -> None:
        """Called at the end with "done", "stopped" or "failed"; the model holds the result."""


def trackers_for_run(given: Any) -> tuple[Tracker, ...]:
    """Validate `log_to=`; return copies of its trackers, and one if `mlflow.autolog` is on."""
    found: list[Tracker] = []
    for each in given if isinstance(given, list | tuple) else [given]:
        is_logger = callable(getattr(each, "log", None)) and not isinstance(each, type)
        if not (isinstance(each, Tracker) or is_logger):
            raise ConfigurationError(
                "each of `log_to` must be a tracker, or a module or object with `log`. "
                f"Received: {each!r:.200}. Use `sw.trackers.MLflow()`, "
                '`sw.trackers.TensorBoard("folder")` or `sw.trackers.Module(wandb)`.'
            )
        found.append(copy.copy(each) if isinstance(each, Tracker) else Module(each))
    if not any(isinstance(each, MLflow) for each in found) and (automatic := _autologging()):
        found.append(automatic)
    for each in found:
        each.check()
    return tuple(found)


class MLflow(Tracker):
    """Logs runs to MLflow: parameters, metrics, the trained model and the timeline.

    If an MLflow run is active in the thread that starts training, the new run is nested in it.

    Args:
        experiment: the experiment's name; created if missing. Default None: the active one.
        tracking_uri: passed to `mlflow.set_tracking_uri` for this process. Default None: unchanged.
        log_model: log the model at the end as "model", unless the run failed; default True.
        registered_model_name: register the model under this name; default None: do not register.
    """

    wait_s = 60.0  # time to upload the model

    def __init__(
        self,
        experiment: str | None = None,
        *,
        tracking_uri: str | None = None,
        log_model: bool = True,
        registered_model_name: str | None = None,
    ) -> None:
        """Create the tracker without contacting a server."""
        self.experiment, self.tracking_uri = experiment, tracking_uri
        self.log_model, self.registered_model_name = log_model, registered_model_name

    def check(self) -> None:
        """See `Tracker`."""
        if util.find_spec("mlflow") is None:
            raise ConfigurationError(
                "`sw.trackers.MLflow` needs the package mlflow. Received: none is installed. "
                'Install it: `pip install "sparkwright[mlflow]"`.'
            )
        # The active run is thread-local; if mlflow is not imported, there is none.
        loaded: Any = sys.modules.get("mlflow")
        active: Any = getattr(loaded and loaded.active_run(), "info", None)
        self._parent: Any = active or getattr(self, "_parent", None)  # of an earlier check

    def begin(self, run: Any, parameters: Mapping[str, Any]) -> str:
        """See `Tracker`."""
        self._run, self._mlflow = run, (mlflow := import_module("mlflow"))
        if self.tracking_uri is not None:
            mlflow.set_tracking_uri(self.tracking_uri)
        place = getattr(self._parent, "experiment_id", None)
        if self.experiment is not None:
            known = mlflow.get_experiment_by_name(self.experiment)
            place = known.experiment_id if known else mlflow.create_experiment(self.experiment)
        parent = getattr(self._parent, "run_id", None)
        begun = mlflow.start_run(experiment_id=place, run_name=run.name, parent_run_id=parent)
        mlflow.set_tag(_PROCESS, json.dumps(Process.this()))
        _end_abandoned(mlflow.MlflowClient(), begun.info.experiment_id)
        longest = 6000  # MLflow rejects longer values
        mlflow.log_params({_mlflow_name(n): str(v)[:longest] for n, v in parameters.items()})
        return begun.info.run_id

    def step(self, step: int, values: Values, workers: Mapping[int, Values]) -> None:
        """See `Tracker`."""
        self.epoch(step, {f"batch_{name}": value for name, value in values.items()})

    def epoch(self, epoch: int, values: Values) -> None:
        """See `Tracker`."""
        named = {_mlflow_name(name): value for name, value in values.items()}
        self._mlflow.log_metrics(named, step=epoch)

    def end(self, state: str) -> None:
        """See `Tracker`."""
        states = {"done": "FINISHED", "stopped": "KILLED"}
        if error := self._run.status.error:
            self._mlflow.set_tag("error", error[:_LONGEST_TAG])
        with contextlib.ExitStack() as last:  # in reverse order, even after an error
            last.callback(self._mlflow.end_run, states.get(state, "FAILED"))
            if self.log_model and state != "failed":
                last.callback(self._log_model)
            if self._run.configuration["master"]["collect_training_stats"]:
                folder = last.enter_context(tempfile.TemporaryDirectory(prefix="sparkwright-"))
                self._run.timeline.to_html(f"{folder}/timeline.html")
                self._mlflow.log_artifact(f"{folder}/timeline.html")

    def _log_model(self) -> None:
        import keras

        keras.config.disable_interactive_logging()  # in this thread: MLflow predicts the example
        keras_flavor, models = import_module("mlflow.keras"), import_module("mlflow.models")
        model, options = self._run.model, dict[str, Any]()

        def save_model(path: str, **given: Any) -> None:
            os.makedirs(path, exist_ok=True)  # mlflow/mlflow#16183
            keras_flavor.save_model(path=path, **given)

        known = signature_of(model)
        if known.input_form != "list" or is_graph(model):  # the inputs have names
            is_bare = known.input_form == "bare"
            made = (_schema(known.inputs, is_bare), _schema(known.outputs, len(known.outputs) < 2))
            options["signature"] = models.ModelSignature(*made)
            example: Any = {
                name: np.zeros((1, *(length or 8 for length in shape)), _numpy_type(dtype))
                for name, (dtype, shape) in known.inputs.items()
            }
            options["input_example"] = next(iter(example.values())) if is_bare else example
        packages = dict.fromkeys(("keras", "numpy", "tensorflow", keras.backend.backend()))
        models.Model.log(
            artifact_path=None,
            name="model",
            flavor=SimpleNamespace(save_model=save_model, __name__="mlflow.keras"),
            model=model,
            registered_model_name=self.registered_model_name,
            # Otherwise MLflow loads the model in another process to infer them.
            pip_requirements=[f"{p}=={import_module(p).__version__}" for p in packages],
            **options,
        )


def _autologging() -> MLflow | None:
    """Return a tracker if `mlflow.autolog()` is on for Keras; it cannot see training on workers."""
    if "mlflow" not in sys.modules:
        return None
    state = import_module("mlflow.utils.autologging_utils")
    flavors = [name for name in ("keras", "tensorflow") if not state.autologging_is_disabled(name)]
    if not flavors:
        return None
    wants_model = state.get_autologging_config(flavors[0], "log_models", default_value=True)
    return MLflow(log_model=wants_model)


def _end_abandoned(client: Any, experiment: str) -> None:
    """End the experiment's runs whose process was killed on this machine."""
    for found in client.search_runs([experiment], "attributes.status = 'RUNNING'"):
        with contextlib.suppress(ValueError, TypeError):  # a tag that another tool has written
            owner = Process(*json.loads(found.data.tags.get(_PROCESS, "")))
            if not owner.is_alive(silent_s=0.0):
                client.set_terminated(found.info.run_id, "FAILED")


class TensorBoard(Tracker):
    """Writes runs for TensorBoard: scalars, histograms, and the graph of layers.

    Each run has a folder of its name with subfolders "train" (means over the workers), "validation"
    and one for each worker, so that their curves share a chart.

    Args:
        folder: path, or a URL that TensorFlow can write to.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Create the tracker without writing."""
        self.folder = os.fspath(folder)

    def begin(self, run: Any, parameters: Mapping[str, Any]) -> str:
        """See `Tracker`."""
        import tensorflow as tf
        from google.protobuf.struct_pb2 import Value

        # Unlike `tf.summary`, these use no device.
        self._tf, self._writers = tf, dict[str, Any]()
        self._place = self.folder.rstrip("/") + "/" + re.sub(r"[^\w.-]+", "-", run.name)
        given = {name: _plain_value(value) for name, value in parameters.items()}
        values = {name: Value(**kind).SerializeToString() for name, kind in given.items()}
        start = b"".join(_bytes(1, _text(1, n) + _bytes(2, v)) for n, v in values.items())
        started = _text(4, run.name) + _double(5, time.time())
        self._write_hparams("session_start_info", 3, start + started)
        if is_graph(run.model):  # in the format of Keras' TensorBoard callback
            about = tf.compat.v1.SummaryMetadata()
            about.plugin_data.plugin_name, about.plugin_data.content = "graph_keras_model", b"1"
            text = tf.make_tensor_proto(run.model.to_json())
            self._write("train", 0, {"tag": "keras", "metadata": about, "tensor": text})
        return self._place

    def step(self, step: int, values: Values, workers: Mapping[int, Values]) -> None:
        """See `Tracker`."""
        for part, found in (("train", values), *((f"worker-{w}", v) for w, v in workers.items())):
            scalars = [{"tag": f"batch_{n}", "simple_value": v} for n, v in found.items()]
            self._write(part, step, *scalars)

    def epoch(self, epoch: int, values: Values) -> None:
        """See `Tracker`."""
        for name, value in values.items():
            part = "validation" if name.startswith("val_") else "train"
            tag = f"epoch_{name.removeprefix('val_')}"
            self._write(part, epoch, {"tag": tag, "simple_value": value})

    def histograms(self, step: int, found: Mapping[str, Histogram]) -> None:
        """See `Tracker`."""
        for name, each in found.items():
            count = float(each.counts.sum())
            histogram = self._tf.compat.v1.HistogramProto(
                **{"min": each.low, "max": each.high, "num": count, "sum": each.mean * count},
                sum_squares=(each.std**2 + each.mean**2) * count,
                bucket_limit=each.edges[1:].tolist(),
                bucket=each.counts.tolist(),
            )
            self._write("train", step, {"tag": name, "histo": histogram})

    def end(self, state: str) -> None:
        """See `Tracker`."""
        status = {"done": 1, "failed": 2}.get(state, 0)
        ended = bytes([1 << 3, status]) + _double(2, time.time())
        self._write_hparams("session_end_info", 4, ended)
        for writer in self._writers.values():
            writer.close()

    def _write_hparams(self, name: str, field: int, message: bytes) -> None:
        """Write a message of TensorBoard's plugin hparams, whose protos TensorFlow lacks."""
        about = self._tf.compat.v1.SummaryMetadata()
        about.plugin_data.plugin_name, about.plugin_data.content = "hparams", _bytes(field, message)
        empty = self._tf.make_tensor_proto(0.0)
        self._write("", 0, {"tag": f"_hparams_/{name}", "metadata": about, "tensor": empty})

    def _write(self, part: str, step: int, *values: Mapping[str, Any]) -> None:
        tf, v1 = self._tf, self._tf.compat.v1
        if part not in self._writers:
            folder = f"{self._place}/{part}".rstrip("/")
            tf.io.gfile.makedirs(folder)
            name = f"events.out.tfevents.{time.time():.0f}.{socket.gethostname()}.{os.getpid()}"
            self._writers[part] = tf.io.TFRecordWriter(f"{folder}/{name}")
            first = v1.Event(wall_time=time.time(), file_version="brain.Event:2")
            self._writers[part].write(first.SerializeToString())
        summary = v1.Summary(value=[v1.Summary.Value(**value) for value in values])
        event = v1.Event(wall_time=time.time(), step=step, summary=summary)
        self._writers[part].write(event.SerializeToString())
        self._writers[part].flush()


class Module(Tracker):
    """Logs runs with `init`, `log` and `finish` of a module such as `wandb` or `trackio`.

    For an object without `init`, such as an open run, only `log` is called.

    Args:
        module: the module or object; `log(values, step=…)` is called.
        **init: arguments of `init`; default project="sparkwright", name=run.name and
            config=parameters.
    """

    def __init__(self, module: Any, **init: Any) -> None:
        """Create the tracker without calling the module."""
        self.module, self.init, self._step = module, init, 0
        self.name = getattr(module, "__name__", type(module).__name__)

    def begin(self, run: Any, parameters: Mapping[str, Any]) -> str | None:
        """See `Tracker`."""
        self._opened, self._finish = self.module, None
        if callable(getattr(self.module, "init", None)):
            given = {"project": "sparkwright", "name": run.name, "config": dict(parameters)}
            opened = self.module.init(**{**given, **self.init})
            self._opened = opened if callable(getattr(opened, "log", None)) else self.module
            self._finish = getattr(self._opened, "finish", None)
        found = getattr(self._opened, "id", None)
        return found if isinstance(found, str) else None

    def step(self, step: int, values: Values, workers: Mapping[int, Values]) -> None:
        """See `Tracker`."""
        self._step = max(step, self._step + 1)  # W&B merges values of the same step
        self._opened.log({f"batch_{name}": v for name, v in values.items()}, step=self._step)

    def epoch(self, epoch: int, values: Values) -> None:
        """See `Tracker`."""
        self._step += 1
        self._opened.log({"epoch": epoch, **values}, step=self._step)

    def end(self, state: str) -> None:
        """See `Tracker`."""
        if self._finish is not None:
            self._finish()


def _plain_value(value: Any) -> dict[str, Any]:
    """Return a hyperparameter as the argument of protobuf's `Value`."""
    if isinstance(value, bool):
        return {"bool_value": value}
    if isinstance(value, int | float):
        return {"number_value": value}
    return {"string_value": str(value)}


# Fields of protobuf messages by number.
def _bytes(field: int, content: bytes) -> bytes:
    size, length = len(content), bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    return bytes([field << 3 | 2, *length, size]) + content


def _text(field: int, text: str) -> bytes:
    return _bytes(field, text.encode())


def _double(field: int, number: float) -> bytes:
    return bytes([field << 3 | 1]) + struct.pack("<d", number)


def _mlflow_name(name: str) -> str:
    return re.sub(r"[^\w\-. :/]", "_", name)


def _schema(specs: Mapping[str, Spec], is_bare: bool) -> Any:
    """MLflow's schema of inputs or outputs, without names if `is_bare`; None if empty."""
    types = import_module("mlflow.types")
    made: list[Any] = []
    for name, (dtype, shape) in specs.items():
        lengths = (-1, *(length or -1 for length in shape))
        made.append(types.TensorSpec(_numpy_type(dtype), lengths, None if is_bare else name))
    return types.Schema(made) if made else None


def _numpy_type(dtype: str) -> Any:
    return np.dtype("str" if dtype == "string" else dtype)
