"""What benchmarks share: sides that take turns, rows of figures, runs and processes to look at."""

import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import sparkwright as sw

Row = dict[str, Any]
Side = Callable[[], object]
ROOT = Path(__file__).resolve().parents[2]
# Before TensorFlow is imported anywhere.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
os.environ.setdefault("SPARKWRIGHT_RUNS", "off")


def seconds(act):
    """How long it takes."""
    began_s = time.perf_counter()
    act()
    return time.perf_counter() - began_s


def in_turn(repeats, sides):
    """Seconds of each side; they take turns, so that what else the machine does meets all alike."""
    found = {name: [] for name in sides}
    for _ in range(repeats):
        for name, side in sides.items():
            found[name].append(seconds(side))
    return found


def rates(count, found):
    """`count` a second, of seconds."""
    return {name: [count / each for each in times] for name, times in found.items()}


def row(what, value, unit, baseline=None, **more):
    """One figure; `more` has "target", "runs", and "ratio" if it is not that to the baseline."""
    ratio = None if baseline is None else value / baseline
    return {"what": what, "value": value, "unit": unit, "baseline": baseline, "ratio": ratio} | more


def compared(what, unit, ours, theirs, **more):
    """Medians of what was measured in turn, and the median of the pairs' ratios."""
    ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    medians = statistics.median(ours), unit, statistics.median(theirs)
    return row(what, *medians, **{"ratio": ratio, "target": "", **more})


def show(rows):
    """Print rows as they come; all of them."""
    found = []
    for each in rows:
        numbers = (each.get(key) for key in ("value", "baseline", "ratio"))
        value, baseline, ratio = ("" if n is None else f"{n:,.2f}" for n in numbers)
        texts = f"{each['what']:<58} {value:>10} {each['unit']:<11}{baseline:>10} {ratio:>7}"
        print(f"{texts}  {each.get('target', '')}", flush=True)
        found.append(each)
    return found


# -- data -----------------------------------------------------------------------------------


def digits_arrays(count):
    """(count, 28, 28, 1) float32 images and (count,) int32 labels.

    They are scikit-learn's digits, shifted and noised to as many as are asked for.
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    random = np.random.default_rng(0)
    pick = random.integers(0, len(bunch.images), count)
    images = np.kron(bunch.images[pick] / 16.0, np.ones((3, 3)))
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    for number, (down, right) in enumerate(random.integers(-2, 3, (count, 2))):
        images[number] = np.roll(images[number], (down, right), (0, 1))
    images += random.normal(0, 0.05, images.shape)
    return images[..., None].astype(np.float32), bunch.target[pick].astype(np.int32)


def dense(*widths, activation=None, top=None):
    """A network of dense layers; `widths` are those of the input, the layers, and the output."""
    import keras

    inner = [keras.layers.Dense(width, activation) for width in widths[1:-1]]
    return keras.Sequential([keras.Input(widths[:1]), *inner, keras.layers.Dense(widths[-1], top)])


# -- runs and processes ---------------------------------------------------------------------


def trained(trains, data, epochs=4):
    """The run of a network or wrapper, after its end."""
    run = trains.start(data, epochs=epochs)
    run.wait()
    return run


def trained_here(model, master, data, *, workers=2, epochs=4):
    """The run of so many workers on this machine, of a core each, after its end."""
    with sw.ParallelWrapper(model, master, workers=workers, cores_per_worker=1) as wrapper:
        return trained(wrapper, data, epochs)


def steady(run):
    """Examples/s of all workers together, from the second epoch on."""
    history = run.history
    later, first = history[history.epoch > 1], history[history.epoch == 1]
    return float(later.examples.sum() / (later.time_s.max() - first.time_s.max()))


def processes(word, *, everywhere=False):
    """Those below this one, or all, with that word in their command lines."""
    import psutil

    below = psutil.Process().children(recursive=True)
    for process in psutil.process_iter() if everywhere else below:
        try:
            if word in process.cmdline():
                yield process
        except psutil.Error:
            continue


TRAINER = "sparkwright.workers._trainer"


def status_mib(pid="self"):
    """Name -> MiB of the memory of a process: VmHWM is its peak, VmRSS that of now."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:  # it has ended
        return {}
    return {name: int(size.split()[0]) / 1024 for name, _, size in
            (line.partition(":") for line in lines) if size.endswith(" kB")}  # fmt: skip
