"""What must hold on a GPU; each check returns a sentence and rows of figures, or raises."""

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
from tests.gpu.networks import GPU, IS_FAKE, averaging, learner, losses_of, stripes, train, wrapper
from tests.gpu.runner import SkipCheck

import sparkwright as sw

# Workers compute in single precision without TF32, so that only the order of sums differs.
_EXACT = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
_TOLERANCE, _TF32_TOLERANCE = 1e-3, 5e-3  # TF32 has 10 bits
Found = tuple[str, list[Any]]


def discovery():
    """The script of the kit beside nvidia-smi, with and without claims."""
    from sparkwright.workers.gpus import CLAIM_VARIABLE, addresses_in, script_text

    gpus, problem = nvidia_gpus()
    expected = ("0",) if IS_FAKE else tuple(gpu["index"] for gpu in gpus)
    found = []
    for claims in ({}, {CLAIM_VARIABLE: "1"}):
        options = {"env": {**os.environ, **claims}, "check": True, "text": True}
        done = subprocess.run(["sh", "-c", script_text()], stdout=subprocess.PIPE, **options)
        found.append(addresses_in(done.stdout))
    assert found[0] == expected, f"the script prints {found[0]}, nvidia-smi {expected} {problem}"
    assert len(found[1]) == 1, f"an executor that needs one GPU claims {found[1]}"
    return f"Both name {', '.join(expected)}; an executor claims {found[1][0]}.", []


def equal_to_cpu():
    """Averaging of two workers and sharing of one, from the same weights on GPU and CPU."""
    os.environ.update(_EXACT)
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=16, minibatches_per_message=1, seed=1)
    differences = {}
    for name, master, workers in (("averaging", averaging(), 2), ("sharing", sharing, 1)):
        on_gpu, on_cpu = (_weights(master, [where] * workers) for where in (GPU, "cpu"))
        differences[name] = float(np.abs(on_gpu - on_cpu).max())
    return _equal(differences)


def _weights(master, devices):
    model = learner()
    losses_of(train(model, master, stripes(), devices, epochs=2))
    return np.concatenate([weight.ravel() for weight in model.get_weights()])


def _equal(differences):
    said = ", ".join(f"{name} {difference:.1e}" for name, difference in differences.items())
    assert max(differences.values()) <= _TOLERANCE, f"weights differ: {said}; may {_TOLERANCE:g}"
    return f"Weights differ by at most {said} (tolerance {_TOLERANCE:g}).", []


class _Witness:
    """A hook that writes down what a worker's process sees."""

    def __init__(self, file):
        self.file = file

    def pre_update(self, minibatch, model):
        held = model.trainable_variables[0].value
        if hasattr(held, "devices"):
            import jax

            seen, where = [each.platform for each in jax.devices()], str(*held.devices())
        else:
            import tensorflow as tf

            seen = [each.device_type for each in tf.config.list_logical_devices()]
            where = held.device
        # TensorFlow counts the CPU, too; JAX may say "cuda" instead of "gpu".
        kinds = [kind.lower().replace("cuda", "gpu") for kind in seen if kind != "CPU"] or ["cpu"]
        on_gpu = "gpu" in where.lower().replace("cuda", "gpu")
        visible = os.environ["CUDA_VISIBLE_DEVICES"]
        self.file.write_text(json.dumps([visible, kinds, "gpu" if on_gpu else "cpu"]))

    def post_update(self, minibatch, model):
        """Nothing is left to do."""


def own_gpu():
    """What a worker's process sees, and what it does with a GPU that is not there."""
    kind = "cpu" if IS_FAKE else "gpu"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "seen"
        train(learner(), averaging(hooks=(_Witness(file),)), stripes(64), [GPU])
        seen = json.loads(file.read_text())
    assert seen == [GPU, [kind], kind], f"a worker of GPU {GPU} sees {seen}"
    os.environ.pop("SPARKWRIGHT_FAKE_GPUS", None)
    try:
        train(learner(), averaging(), stripes(64), ["99"])
    except sw.ConfigurationError as error:
        return f"It sees GPU {seen[0]} alone. GPU 99 is refused: {error}"[:300], []
    raise AssertionError("a worker computes although there is no GPU 99")


def shared_gpu():
    """Both masters with two workers on one GPU, validation there, and what they take of memory."""
    data, said = stripes(480), []
    sharing = sw.SharedTrainingMaster(batch_size_per_worker=16, seed=1)
    for master in (averaging(), sharing):
        model = learner()
        run = train(model, master, stripes(), [GPU, GPU], epochs=3, validation=data)
        share = 0.0 if IS_FAKE else _memory_share()
        pids = {worker.pid for worker in run.status.workers}
        assert len(pids) == 2, f"two workers are processes {pids}"
        assert share < 0.5, f"two small workers and others take {share:.0%} of the GPU's memory"
        losses_of(run)
        there = run.status.validation[-1].loss
        here = model.evaluate(data.features["features"], data.labels["labels"], verbose=0)[0]
        difference = abs(there - here)
        assert difference < _TF32_TOLERANCE, f"the validation loss is {there}, on CPUs {here}"
        said.append(f"{share:.1%} of its memory, validation differs from CPUs by {difference:.0e}")
    return f"Averaging: {said[0]}. Sharing: {said[1]}.", []


def _memory_share():
    query = ["nvidia-smi", f"--id={GPU}", "--query-gpu=memory.used,memory.total"]
    command = [*query, "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    used, total = done.stdout.split(",")
    return float(used) / float(total)


def killed():
    """One of two workers on the GPU ends in mid-run; the run must go on and lose nothing."""
    data, epochs = stripes(), 6 if IS_FAKE else 60
    # An averaging after each minibatch, so that it ends in the midst of something.
    trainers = wrapper(learner(), averaging(averaging_frequency=1), [GPU, GPU])
    run = trainers.start(data, epochs=epochs, display=False)
    deadline = time.monotonic() + 80
    while not all(worker.steps for worker in run.status.workers):
        assert time.monotonic() < deadline, "a worker has not trained within 80 s"
        time.sleep(0.02)
    before = run.status.workers[1].pid
    os.kill(before, signal.SIGKILL)
    run.wait(100.0)
    after = run.status.workers[1].pid
    assert after != before, f"worker 1 is still process {before}: the run ended before"
    counts = run.history.groupby("epoch").examples.sum().tolist()
    assert counts == [len(data)] * epochs, f"of {len(data)} examples, epochs trained {counts}"
    return f"Process {before} was replaced by {after}; no example was lost or doubled.", []


def mixed_precision():
    """Losses fall, variables stay in single precision, and the loss scale is a power of two."""
    import keras

    said = []
    for policy in ("mixed_bfloat16", "mixed_float16"):
        model = learner(policy)
        losses = losses_of(train(model, averaging(), stripes(), [GPU, GPU], epochs=3))
        kinds = {str(variable.dtype) for variable in model.trainable_variables}
        assert kinds == {"float32"}, f"{policy} has variables of {kinds}"
        said.append(f"{policy}: loss {losses[0]:.2f} to {losses[-1]:.2f}")
    scale = float(keras.ops.convert_to_numpy(model.optimizer.dynamic_scale))
    assert np.log2(scale) % 1 == 0, f"the loss scale of mixed_float16 is {scale}"
    return f"{said[0]}; {said[1]}, with a loss scale of {scale:g}.", []


def xla():
    """The trial of "measure" puts all variables back: weights are those of "off" and "on"."""
    import keras

    if keras.backend.backend() != "tensorflow":
        raise SkipCheck("JAX always compiles with XLA.")
    os.environ.update(_EXACT)
    found = {c: _weights(averaging(xla=c), [GPU]) for c in ("off", "on", "auto", "measure")}
    return _equal({name: float(np.abs(each - found["off"]).max()) for name, each in found.items()})


def spark():
    """A session whose executor has a GPU: settings, training, evaluation, prediction."""
    data, model = stripes(), learner()
    features, labels = data.features["features"], data.labels["labels"]
    session = sw.start_spark(workers=1, gpus_per_executor=1)
    settings = dict(session.sparkContext.getConf().getAll())
    wanted = {"spark.executor.resource.gpu.amount": "1", "spark.task.resource.gpu.amount": "1"}
    assert wanted.items() <= settings.items(), {name: settings.get(name) for name in wanted}
    network = sw.SparkNetwork(session, model, averaging())
    examples = sw.data.from_arrays(session, features, labels)
    run = network.start(examples, epochs=3, display=False)
    run.wait(120.0)
    devices = [worker.device for worker in run.status.workers]
    assert all(device.startswith(f"GPU {GPU}") for device in devices), devices
    losses_of(run)
    there = network.evaluate(examples).accuracy
    here = float((np.asarray(model(features)).argmax(1) == labels).mean())
    difference = float(np.abs(network.predict(features) - np.asarray(model(features))).max())
    session.stop()
    assert abs(there - here) < 0.01, f"the accuracy is {there}, on the driver {here}"
    assert difference < _TF32_TOLERANCE, f"predictions differ from the driver's by {difference}"
    return f"Accuracy {there:.2f}; predictions differ from the driver's by {difference:.0e}.", []
