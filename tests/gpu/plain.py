"""What the backend does on the GPU without Sparkwright, alone in its process.

    python -m tests.gpu.plain steps NETWORK       examples/s of model.fit and the best loops, a step
    python -m tests.gpu.plain vectors MILLIONS    seconds to copy parameters from and to the GPU
    python -m tests.gpu.plain sockets MILLIONS    seconds for two processes to send so many to each other

Prints JSON. The GPU belongs to this process alone meanwhile, as it belongs to the workers later.
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.gpu.networks import SMALL, network, random_data, wide
from tests.gpu.runner import ROOT

_SECONDS = 0.2 if SMALL else 2.0
_REPEATS = 3
_SCANNED = 8


def measured(*arguments: str) -> dict[str, Any]:
    """What this module prints in a process of its own."""
    command = [sys.executable, "-m", "tests.gpu.plain", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-1500:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# -- steps ----------------------------------------------------------------------------------


def steps(name: str) -> dict[str, Any]:
    """Examples/s of `fit`, of the best `loop`, and of a step alone whose minibatch is on the GPU."""
    import keras

    model, batch = network(name)
    features, labels = random_data(model, 8 * batch)
    on_jax = keras.backend.backend() == "jax"
    loops = (_jax_loops if on_jax else _tf_loops)(model, batch, features, labels)
    alone = loops.pop("alone")
    return {
        "batch": batch,
        "parameters": model.count_params(),
        "loops": loops,
        "loop": max(loops.values()),
        "alone": alone,
        "fit": _fit(network(name)[0], batch, *random_data(model, 24 * batch)),
    }


def _rate(batch: int, act: Callable[[int], object]) -> float:
    """Examples/s of `act(n)`, which trains n minibatches and waits for the last; the best of some."""
    act(_SCANNED)  # compiles
    act(_SCANNED)
    began_s = time.perf_counter()
    act(_SCANNED)
    each_s = (time.perf_counter() - began_s) / _SCANNED
    count = max(1, round(_SECONDS / each_s / _SCANNED)) * _SCANNED
    times: list[float] = []
    for _ in range(_REPEATS):
        began_s = time.perf_counter()
        act(count)
        times.append(time.perf_counter() - began_s)
    return count * batch / min(times)


def _fit(model: Any, batch: int, features: Any, labels: Any) -> float:
    """Keras' own loop: minibatches of a tf.data pipeline or of arrays; epochs after the first."""
    import keras

    ends: list[float] = []
    timer = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.perf_counter()))
    model.fit(features, labels, batch_size=batch, epochs=4, verbose=0, callbacks=[timer])
    return 2 * len(features) / (ends[-1] - ends[1])


def _jax_loops(model: Any, batch: int, features: Any, labels: Any) -> dict[str, float]:
    """A jitted step with donated buffers, fed ahead; several in a scan; one without feeding."""
    import jax  # pyright: ignore[reportMissingImports]
    import keras

    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)

    def loss_of(trainable: Any, others: Any, x: Any, y: Any) -> Any:
        found, others = model.stateless_call(trainable, others, x, training=True)
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(y, found)), others

    def step(state: Any, minibatch: Any) -> Any:
        trainable, others, moments = state
        with_gradients = jax.value_and_grad(loss_of, has_aux=True)
        (loss, others), gradients = with_gradients(trainable, others, *minibatch)
        trainable, moments = optimizer.stateless_apply(moments, gradients, trainable)
        return (trainable, others, moments), loss

    state: Any = tuple(
        [variable.value.copy() for variable in of]
        for of in (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    )
    one = jax.jit(step, donate_argnums=0)
    several = jax.jit(lambda state, blocks: jax.lax.scan(step, state, blocks), donate_argnums=0)
    host = [
        (features[i : i + batch], labels[i : i + batch]) for i in range(0, len(features), batch)
    ]
    blocks = [tuple(np.stack(parts) for parts in zip(*host[:_SCANNED], strict=True))]
    held = jax.device_put(host[0])

    def run(call: Any, given: Any, count: int, *, put: bool = True) -> None:
        nonlocal state
        source = itertools.cycle(given)
        ahead = jax.device_put(next(source))
        for _ in range(count):
            minibatch = ahead
            state, loss = call(state, minibatch)
            if put:
                ahead = jax.device_put(next(source))
        jax.block_until_ready(loss)

    found = {
        "alone": _rate(batch, lambda n: run(one, [held], n, put=False)),
        "step by step": _rate(batch, lambda n: run(one, host, n)),
    }
    # XLA for CPUs runs convolutions in a compiled loop many times slower.
    if not SMALL and model.name != "resnet50":
        found["eight in a scan"] = _rate(batch, lambda n: run(several, blocks, n // _SCANNED))
    return found


def _tf_loops(model: Any, batch: int, features: Any, labels: Any) -> dict[str, float]:
    """A tf.function of eight steps, with and without XLA, fed by tf.data onto the GPU."""
    import tensorflow as tf

    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    data = tf.data.Dataset.from_tensor_slices((features, labels)).repeat()
    data = data.batch(batch, drop_remainder=True)
    on_gpu = bool(tf.config.list_logical_devices("GPU"))
    data = (
        data.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))
        if on_gpu
        else data.prefetch(2)
    )
    held = tuple(tf.identity(tf.constant(part[:batch])) for part in (features, labels))

    def train(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, trainable), trainable, strict=True))
        return loss

    found: dict[str, float] = {}
    for xla in (False, True):
        step = tf.function(train, jit_compile=xla, autograph=False)
        batches = iter(data)

        def fed(count: int, step: Any = step, batches: Any = batches) -> None:
            for _ in range(count):
                loss = step(*next(batches))
            loss.numpy()

        def alone(count: int, step: Any = step) -> None:
            for _ in range(count):
                loss = step(*held)
            loss.numpy()

        found["with XLA" if xla else "without XLA"] = _rate(batch, fed)
        found["alone"] = max(found.get("alone", 0.0), _rate(batch, alone))
    return found


# -- copies ---------------------------------------------------------------------------------


def vectors(millions: str) -> dict[str, Any]:
    """Seconds of the engine to read and write a network's vector, and of one bare array likewise."""
    import keras

    from sparkwright.networks.state import ModelState

    state = ModelState.of(wide(_parameters(millions)))
    vector = np.zeros(state.averaged_size, np.float32)
    out = np.empty_like(vector)
    times: dict[str, list[float]] = {"read": [], "write": [], "down": [], "up": []}
    put = _jax_put if keras.backend.backend() == "jax" else _tf_put
    for number in range(2 + _REPEATS):
        vector[:] = number
        times["write"].append(_seconds(lambda: state.write(vector)))
        times["read"].append(_seconds(lambda: state.read(updater=False, out=out)))
        if not (out == number).all():
            raise RuntimeError("what was read is not what was written")
        held: list[Any] = []
        times["up"].append(_seconds(lambda held=held: held.append(put(vector))))
        times["down"].append(_seconds(lambda held=held: np.copyto(out, np.asarray(held[0]))))
    medians = {name: statistics.median(found[2:]) for name, found in times.items()}
    return {"parameters": state.averaged_size, **medians}


def _jax_put(vector: Any) -> Any:
    import jax  # pyright: ignore[reportMissingImports]

    # An array that JAX has not computed itself may keep the memory that it came from.
    return jax.block_until_ready(jax.device_put(vector) + 0)


def _tf_put(vector: Any) -> Any:
    import tensorflow as tf

    held = tf.identity(tf.convert_to_tensor(vector))
    float(held[0])  # which waits
    return held


def sockets(millions: str) -> dict[str, Any]:
    """Seconds in which two processes send each other a vector of float32, over loopback."""
    from tests.benchmarks.training import _bare_sockets_ms

    return {"seconds": _bare_sockets_ms(4 * _parameters(millions), 2) / 1e3}


def _parameters(millions: str) -> int:
    return int(float(millions) * (1e4 if SMALL else 1e6))


def _seconds(act: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


if __name__ == "__main__":
    os.environ.setdefault("SPARKWRIGHT_RUNS", "off")
    print(
        json.dumps(
            {"steps": steps, "vectors": vectors, "sockets": sockets}[sys.argv[1]](sys.argv[2])
        )
    )
