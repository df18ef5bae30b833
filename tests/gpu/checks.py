"""What must hold on a GPU; each check returns a sentence and rows of figures, or raises."""

import contextlib
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from tests.gpu.machine import nvidia_gpus
from tests.gpu.networks import (
    GPU,
    IS_FAKE,
    averaging,
    epoch_losses,
    learner,
    stripes,
    train,
)
from tests.gpu.runner import SkipCheck

import sparkwright as sw

# Single precision on both sides (TF32 is off), whose sums have another order.
_TOLERANCE = 2e-4
Found = tuple[str, list[Any]]


def discovery() -> Found:
    """The script of the kit beside nvidia-smi, with and without claims."""
    from sparkwright.workers.gpus import CLAIM_VARIABLE, addresses_in, script_text

    gpus, problem = nvidia_gpus()
    expected = ("0",) if IS_FAKE else tuple(gpu["index"] for gpu in gpus)
    assert expected, problem
    found: dict[str, tuple[str, ...]] = {}
    for claims in ("", "1"):
        environment = {**os.environ, **({CLAIM_VARIABLE: claims} if claims else {})}
        command = ["sh", "-c", script_text()]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        found[claims] = addresses_in(done.stdout)
    assert found[""] == expected, f"the script prints {found['']}, nvidia-smi {expected}"
    assert len(found["1"]) == 1, f"an executor that needs one GPU claims {found['1']}"
    return f"Both name {', '.join(expected)}; an executor claims {found['1'][0]}.", []


def equal_to_cpu() -> Found:
    """Averaging of two workers and sharing of one, from the same weights on GPU and CPU."""
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=16, minibatches_per_message=1, seed=1)
    differences: dict[str, float] = {}
    for name, master, workers in (("averaging", averaging(), 2), ("sharing", sharing, 1)):
        found: list[Any] = []
        for devices in ([GPU] * workers, "cpu"):
            if devices == "cpu":
                master = _with_workers(master, workers)
            model, run = _train_on(devices, master, workers)
            found.append(np.concatenate([weight.ravel() for weight in model.get_weights()]))
            losses = epoch_losses(run)
            assert losses[-1] < 0.7 * losses[0], f"{name} on {devices} does not learn: {losses}"
        differences[name] = float(np.abs(found[0] - found[1]).max())
    said = ", ".join(f"{name} {found:.1e}" for name, found in differences.items())
    assert max(differences.values()) <= _TOLERANCE, f"weights differ by {said} > {_TOLERANCE:g}"
    return f"Weights differ by at most {said} (tolerance {_TOLERANCE:g}).", []


def _with_workers(master: Any, workers: int) -> Any:
    from dataclasses import replace

    return replace(master, workers=workers)


def _train_on(devices: Any, master: Any, workers: int) -> tuple[Any, Any]:
    model, run = (
        train(learner(), master, stripes(), devices, epochs=2) if workers == 2 else (None, None)
    )
    if model is None:
        with sw.ParallelWrapper(learner(), master, devices=devices, workers=1) as wrapper:
            run = wrapper.start(stripes(), epochs=2, display=False)
            run.wait(200.0)
            model = wrapper.model
    _check_devices(run, devices)
    return model, run


def _check_devices(run: Any, devices: Any) -> None:
    """Whether the workers say that they computed where they were to."""
    for worker in run.status.workers:
        expected = (
            worker.device == "CPU" if devices == "cpu" else worker.device.startswith(f"GPU {GPU}")
        )
        assert expected, f"worker {worker.worker} was to compute on {devices}: {worker.device!r}"
        assert IS_FAKE or "(fake)" not in worker.device, worker.device


class _Witness:
    """A hook that writes down what a worker's process sees; each process writes a file."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def pre_update(self, minibatch: Any, model: Any) -> None:
        del minibatch
        import keras

        file = Path(self.folder) / str(os.getpid())
        if file.exists():
            return
        if keras.backend.backend() == "jax":
            import jax  # pyright: ignore[reportMissingImports]

            seen = [device.platform for device in jax.devices()]
            where = [device.platform for device in model.trainable_variables[0].value.devices()]
        else:
            import tensorflow as tf

            seen = ["gpu" for _ in tf.config.list_logical_devices("GPU")] or ["cpu"]
            where = ["gpu" if "GPU" in model.trainable_variables[0].value.device else "cpu"]
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        file.write_text(json.dumps({"visible": visible, "seen": seen, "where": where}))

    def post_update(self, minibatch: Any, model: Any) -> None:
        """Nothing is left to do."""


def own_gpu() -> Found:
    """What a worker's process sees, and what it does with a GPU that is not there."""
    with tempfile.TemporaryDirectory() as folder:
        master = averaging(hooks=(_Witness(folder),))
        train(learner(), master, stripes(64), [GPU])
        (seen,) = [json.loads(file.read_text()) for file in Path(folder).iterdir()]
    kind = "cpu" if IS_FAKE else "gpu"
    expected = {"visible": GPU, "seen": [kind], "where": [kind]}
    assert seen == expected, f"a worker of GPU {GPU} sees {seen}"
    with contextlib.suppress(KeyError):
        del os.environ["SPARKWRIGHT_FAKE_GPUS"]
    try:
        train(learner(), averaging(), stripes(64), ["99"])
    except sw.ConfigurationError as error:
        assert "GPU 99" in str(error), error
    else:
        raise AssertionError("a worker computes although there is no GPU 99")
    return f"It sees {seen}; GPU 99 is refused.", []


def shared_gpu() -> Found:
    """Both masters with two workers on one GPU; what they take of its memory."""
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=16, seed=1)
    taken: list[float] = []
    for master in (averaging(), sharing):
        with sw.ParallelWrapper(
            learner(), master, devices=[GPU, GPU], cores_per_worker=1 if IS_FAKE else 4
        ) as wrapper:
            run = wrapper.start(stripes(), epochs=3, display=False)
            run.wait(200.0)
            _check_devices(run, [GPU, GPU])
            pids = {worker.pid for worker in run.status.workers}
            assert len(pids) == 2, f"two workers are processes {pids}"
            losses = epoch_losses(run)
            assert losses[-1] < 0.8 * losses[0], f"{type(master).__name__} does not learn: {losses}"
            taken.append(0.0 if IS_FAKE else _memory_share())
    assert max(taken) < 0.5, f"two small workers take {max(taken):.0%} of the GPU's memory"
    return f"Two processes trained; together they took {max(taken):.1%} of its memory.", []


def _memory_share() -> float:
    query = ["nvidia-smi", f"--id={GPU}", "--query-gpu=memory.used,memory.total"]
    command = [*query, "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    used, total = done.stdout.split(",")
    return float(used) / float(total)


def killed() -> Found:
    """One of two workers on the GPU ends in mid-run; the run must go on and lose nothing."""
    data = stripes(1_920)
    # Each minibatch is an averaging, so that the run lasts until the replacement is there.
    master = averaging(averaging_frequency=1)
    with sw.ParallelWrapper(learner(), master, devices=[GPU, GPU], cores_per_worker=1) as wrapper:
        run = wrapper.start(data, epochs=6, display=False)
        deadline = time.monotonic() + 80
        while not all(worker.steps for worker in run.status.workers):
            assert time.monotonic() < deadline and not run.finished, "no worker has trained"
            time.sleep(0.02)
        before = run.status.workers[1].pid
        os.kill(before, signal.SIGKILL)
        run.wait(100.0)
    after = run.status.workers[1]
    assert after.pid != before and after.restarts, f"worker 1 is still process {before}"
    _check_devices(run, [GPU, GPU])
    counts = run.history.groupby("epoch").examples.sum().tolist()
    assert counts == [len(data)] * 6, f"each epoch has {len(data)} examples, trained were {counts}"
    return f"Process {before} was replaced by {after.pid}; no example was lost or doubled.", []


def mixed_precision() -> Found:
    """Losses fall, variables stay in single precision, a loss scale is a power of two."""
    import keras

    said: list[str] = []
    for policy in ("mixed_bfloat16", "mixed_float16"):
        model, run = train(learner(policy), averaging(), stripes(), [GPU, GPU], epochs=3)
        losses = epoch_losses(run)
        assert losses[-1] < 0.8 * losses[0], f"{policy} does not learn: {losses}"
        kinds = {str(variable.dtype) for variable in model.trainable_variables}
        assert kinds == {"float32"}, f"{policy} has variables of {kinds}"
        scale = getattr(model.optimizer, "dynamic_scale", None)
        if scale is not None:
            value = float(keras.ops.convert_to_numpy(scale))
            assert value > 0 and np.log2(value) % 1 == 0, f"the loss scale is {value}"
            said.append(f"its loss scale is {value:g}")
        elif policy == "mixed_float16":
            raise AssertionError("mixed_float16 trains without a loss scale")
        said.append(f"{policy}: loss {losses[0]:.2f} to {losses[-1]:.2f}")
    return "; ".join(said) + ".", []


def inference() -> Found:
    """The loss of validation data that workers compute on the GPU, beside Keras on this CPU."""
    data = stripes(480)
    model, run = train(learner(), averaging(), stripes(), [GPU, GPU], epochs=2, validation=data)
    point = run.status.validation[-1]
    features, labels = data.features["features"], data.labels["labels"]
    loss, accuracy = model.evaluate(features, labels, verbose=0)
    difference = abs(point.loss - loss)
    # TF32 has 10 bits of mantissa.
    assert difference < 5e-3, f"the loss is {point.loss} on the GPU and {loss} here"
    assert abs(point.metrics["accuracy"] - accuracy) < 0.01, (point.metrics, accuracy)
    return f"Validation losses differ by {difference:.1e}, at an accuracy of {accuracy:.2f}.", []


def xla() -> Found:
    """The trial of "measure" puts all variables back: weights are those of "off" and "on"."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise SkipCheck("JAX always compiles with XLA.")
    found: dict[str, Any] = {}
    for choice in ("off", "on", "auto", "measure"):
        master = averaging(xla=choice)
        model, _ = train(learner(), master, stripes(320), [GPU])
        found[choice] = np.concatenate([weight.ravel() for weight in model.get_weights()])
    differences = {name: float(np.abs(each - found["off"]).max()) for name, each in found.items()}
    assert max(differences.values()) <= _TOLERANCE, f"weights differ by {differences}"
    return f"Weights differ by at most {max(differences.values()):.1e}.", []


def spark() -> Found:
    """A session with executors that have a GPU: its settings, training, evaluation, prediction."""
    data = stripes()
    features, labels = data.features["features"], data.labels["labels"]
    session = sw.start_spark(workers=1, gpus_per_executor=1)
    try:
        settings = dict(session.sparkContext.getConf().getAll())
        wanted = {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"}
        assert wanted.items() <= settings.items(), {name: settings.get(name) for name in wanted}
        examples = sw.data.from_arrays(session, features, labels)
        network = sw.SparkNetwork(session, learner(), averaging())
        run = network.start(examples, epochs=3, display=False)
        model = run.wait()
        _check_devices(run, [GPU])
        losses = epoch_losses(run)
        assert losses[-1] < 0.7 * losses[0], f"it does not learn: {losses}"
        accuracy = network.evaluate(examples).accuracy
        predicted = np.asarray(network.predict(features[:50]))
        difference = float(np.abs(predicted - np.asarray(model(features[:50]))).max())
        assert difference < 5e-3, f"predictions differ by {difference}"
    finally:
        session.stop()
    return f"Accuracy {accuracy:.2f}; predictions differ from the driver's by {difference:.1e}.", []
