"""What a GPU does without Sparkwright, which then has it for itself; prints JSON.

python -m tests.gpu.plain steps NETWORK       examples/s of `model.fit`, loops, and a step alone
python -m tests.gpu.plain vectors MILLIONS    seconds to copy parameters to and from the GPU
python -m tests.gpu.plain sockets MILLIONS    seconds for two processes to send each other so many
"""

import json
import statistics
import subprocess
import sys
import time
from functools import partial
from itertools import cycle, repeat

import numpy as np
from tests.benchmarks._harness import seconds
from tests.gpu.networks import SMALL, network, random_data, wide
from tests.gpu.runner import ROOT

_SECONDS, _REPEATS, _SCANNED = (0.2 if SMALL else 1.5), 3, 8
Rates = dict[str, float]


def measured(*arguments):
    """What this module prints in a process of its own."""
    command = [sys.executable, "-m", "tests.gpu.plain", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stderr[-1200:]}")
    return json.loads(done.stdout.splitlines()[-1])


def steps(name):
    """Examples/s of `fit`, of loops by name, and of a step `alone` that needs no new minibatch."""
    import keras

    model, batch = network(name)
    features, labels = random_data(model, 24 * batch)
    ends = []
    timer = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: ends.append(time.perf_counter()))
    model.fit(features, labels, batch_size=batch, epochs=4, verbose=0, callbacks=[timer])
    fit = 2 * len(features) / (ends[-1] - ends[1])
    minibatches = [
        (features[i : i + batch], labels[i : i + batch]) for i in range(0, 8 * batch, batch)
    ]
    on_jax = keras.backend.backend() == "jax"
    loops = (_jax_loops if on_jax else _tf_loops)(network(name)[0], batch, minibatches)
    alone = loops.pop("alone")
    counts = {"batch": batch, "parameters": model.count_params()}
    return {**counts, "fit": fit, "alone": alone, "loops": loops, "loop": max(loops.values())}


def _rate(batch, act):
    """Examples/s of `act(n)`, which trains n minibatches and waits for the last one; the best."""
    act(_SCANNED)  # compiles
    act(_SCANNED)
    each_s = seconds(lambda: act(_SCANNED)) / _SCANNED
    count = max(1, round(_SECONDS / each_s / _SCANNED)) * _SCANNED
    return count * batch / min(seconds(lambda: act(count)) for _ in range(_REPEATS))


def _jax_loops(model, batch, minibatches):
    """A jitted step with donated buffers that is fed ahead; eight steps in a scan likewise."""
    import jax
    import keras

    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    kinds = (model.trainable_variables, model.non_trainable_variables, optimizer.variables)
    state = tuple([variable.value.copy() for variable in kind] for kind in kinds)

    def loss_of(trainable, others, x, y):
        found, others = model.stateless_call(trainable, others, x, training=True)
        return keras.ops.mean(keras.losses.sparse_categorical_crossentropy(y, found)), others

    def step(state, minibatch):
        trainable, others, moments = state
        with_gradients = jax.value_and_grad(loss_of, has_aux=True)
        (loss, others), gradients = with_gradients(trainable, others, *minibatch)
        trainable, moments = optimizer.stateless_apply(moments, gradients, trainable)
        return (trainable, others, moments), loss

    one = jax.jit(step, donate_argnums=0)
    several = jax.jit(lambda state, block: jax.lax.scan(step, state, block), donate_argnums=0)

    def loop(call, given, count):
        nonlocal state
        source, loss = cycle(given), None
        ahead = jax.device_put(next(source))
        for _ in range(count):
            now, ahead = ahead, ahead if given is held else jax.device_put(next(source))
            state, loss = call(state, now)
        jax.block_until_ready(loss)

    held = [minibatches[0]]
    found = {"alone": _rate(batch, lambda n: loop(one, held, n))}
    found["step by step"] = _rate(batch, lambda n: loop(one, minibatches, n))
    # The minibatches of larger networks take so long that a scan gains nothing.
    if not SMALL and model.name == "lenet":
        block = [tuple(np.stack(part) for part in zip(*minibatches, strict=True))]
        found["eight in a scan"] = _rate(batch, lambda n: loop(several, block, n // _SCANNED))
    return found


def _tf_loops(model, batch, minibatches):
    """A tf.function with and without XLA, fed by tf.data that prefetches onto the GPU."""
    import tensorflow as tf

    optimizer, trainable = model.optimizer, model.trainable_variables
    optimizer.build(trainable)
    parts = tuple(np.concatenate(part) for part in zip(*minibatches, strict=True))
    data = tf.data.Dataset.from_tensor_slices(parts).repeat().batch(batch, drop_remainder=True)
    if tf.config.list_logical_devices("GPU"):
        data = data.apply(tf.data.experimental.prefetch_to_device("/GPU:0"))
    held = tuple(tf.identity(tf.constant(part)) for part in minibatches[0])

    def train(x, y):
        with tf.GradientTape() as tape:
            loss = model.compute_loss(x=x, y=y, y_pred=model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, trainable), trainable, strict=True))
        return loss

    def loop(step, source, count):
        for _ in range(count):
            loss = step(*next(source))
        loss.numpy()

    found = {}
    for xla in (False, True):
        step = tf.function(train, jit_compile=xla)
        rates = [_rate(batch, partial(loop, step, source)) for source in (iter(data), repeat(held))]
        found["with XLA" if xla else "without XLA"] = rates[0]
        found["alone"] = max(found.get("alone", 0.0), rates[1])
    return found


def vectors(millions):
    """Seconds of the engine to read and write a network's vector, and of one bare array."""
    import keras

    from sparkwright.networks import ModelState

    on_jax = keras.backend.backend() == "jax"
    state = ModelState.of(wide(_parameters(millions)))
    vector = np.zeros(state.averaged_size, np.float32)
    out, held = np.empty_like(vector), []
    down = _jax_pinned if on_jax else np.asarray
    times = {"read": [], "write": [], "down": [], "up": []}
    for number in range(2 + _REPEATS):
        vector[:] = number
        times["write"].append(seconds(lambda: state.write(vector)))
        vector[:] = -1  # its owner changes it as soon as it is written
        times["read"].append(seconds(lambda: state.read(updater=False, out=out)))
        assert (out == number).all(), "what was read is not what was written"
        times["up"].append(seconds(lambda: held.append((_jax_put if on_jax else _tf_put)(vector))))
        times["down"].append(seconds(lambda: np.copyto(out, down(held.pop()))))
    medians = {name: statistics.median(found[2:]) for name, found in times.items()}
    return {"parameters": state.averaged_size, **medians}


def _jax_put(vector):
    import jax

    # A sum, because JAX remembers the host's memory of an array that it was given.
    return jax.block_until_ready(jax.device_put(vector) + 0)


def _jax_pinned(array):
    import jax

    sharding = jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host")
    return np.asarray(jax.device_put(array, sharding))


def _tf_put(vector):
    import tensorflow as tf

    tensor = tf.identity(tf.convert_to_tensor(vector))
    float(tensor[0])  # which waits
    return tensor


def sockets(millions):
    """Seconds in which two processes send each other a vector of float32, over loopback."""
    from tests.benchmarks.training import _bare_sockets_ms

    return {"seconds": _bare_sockets_ms(4 * _parameters(millions), 2) / 1e3}


def _parameters(millions):
    return int(float(millions) * (1e4 if SMALL else 1e6))


if __name__ == "__main__":
    kinds = {"steps": steps, "vectors": vectors, "sockets": sockets}
    print(json.dumps(kinds[sys.argv[1]](sys.argv[2])))
