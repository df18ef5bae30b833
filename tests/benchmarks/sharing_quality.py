"""Gradient sharing's defaults against plain Keras: the loss after as many epochs.

    python -m tests.benchmarks.sharing_quality          all of it, about half an hour
    python -m tests.benchmarks.sharing_quality table 2  problems whose name begins so, and seeds

Both see every example as often, in minibatches of one size. Ratios are of the medians over the
seeds: now and then a run of either ends with a minibatch that was too much for it.
"""

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from tests.benchmarks._harness import Row, dense, row, show

import sparkwright as sw

WORKERS, SEEDS = (1, 2, 3, 4), 5


class Problem(NamedTuple):
    """Data and a network; `rates` are the learning rates of SGD, momentum SGD and Adam."""

    data: Callable[[int], tuple[Any, Any]]
    network: Callable[[int], Any]
    batch_size: int
    epochs: int
    rates: tuple[float, float, float]


def blobs(seed: int) -> tuple[Any, Any]:
    """600 points of four columns around three centers, which overlap."""
    random = np.random.default_rng(seed)
    labels = np.arange(600, dtype=np.int32) % 3
    found = random.normal(size=(3, 4))[labels] + random.normal(size=(600, 4))
    return found.astype(np.float32), labels


def iris(seed: int) -> tuple[Any, Any]:
    """150 flowers, standardized, in an order of their own for each seed."""
    from sklearn.datasets import load_iris

    bunch: Any = load_iris()
    order = np.random.default_rng(seed).permutation(len(bunch.data))
    columns = (bunch.data - bunch.data.mean(0)) / bunch.data.std(0)
    return columns[order].astype(np.float32), bunch.target[order].astype(np.int32)


def digits(seed: int) -> tuple[Any, Any]:
    """1,797 images; the same for each seed."""
    del seed
    from sparkwright.data._from_arrays import load_digits

    found = load_digits()
    return found.features["features"], found.labels["labels"].astype(np.int32)


def table(seed: int) -> Any:
    """Four columns, one hidden layer, three classes."""
    import keras

    keras.utils.set_random_seed(seed)
    return dense(4, 8, 3, activation="tanh", top="softmax")


def lenet(seed: int) -> Any:
    """LeNet, 431,080 parameters."""
    return sw.networks.lenet(seed=seed)


PROBLEMS = {
    "table: blobs": Problem(blobs, table, 8, 8, (0.05, 0.01, 5e-3)),
    "table: iris": Problem(iris, table, 5, 10, (0.05, 0.01, 5e-3)),
    "LeNet: digits": Problem(digits, lenet, 32, 6, (0.01, 1e-3, 3e-4)),
}


def loss(problem: Problem, optimizer: str, *, workers: int, seed: int, **options: Any) -> float:
    """Loss on the training data afterwards; `workers=0` is `model.fit`."""
    import keras

    x, y = problem.data(seed)
    model = problem.network(seed)
    kinds: dict[str, Callable[[float], Any]] = {
        "SGD": keras.optimizers.SGD,
        "momentum": lambda rate: keras.optimizers.SGD(rate, momentum=0.9),
        "Adam": keras.optimizers.Adam,
    }
    model.compile(
        kinds[optimizer](dict(zip(kinds, problem.rates, strict=True))[optimizer]),
        "sparse_categorical_crossentropy",
    )
    if workers:
        master = sw.SharedTrainingMaster(
            workers=workers, batch_size_per_worker=problem.batch_size, seed=seed, **options
        )
        with sw.ParallelWrapper(model, master, workers=workers, cores_per_worker=1) as wrapper:
            wrapper.fit(sw.DataSet(x, y), epochs=problem.epochs)
    else:
        keras.utils.set_random_seed(seed)
        sizes = {"batch_size": problem.batch_size, "epochs": problem.epochs}
        model.fit(x, y, verbose=0, **sizes)
    return float(np.ravel(model.evaluate(x, y, verbose=0, batch_size=500))[0])


def sharing_quality(name: str = "", seeds: int = SEEDS, **options: Any) -> Iterator[Row]:
    """Loss by the defaults, or by `options`, over plain Keras' loss."""
    for title, problem in PROBLEMS.items():
        if not title.startswith(name):
            continue
        for optimizer in ("SGD", "momentum", "Adam"):
            plain = [loss(problem, optimizer, workers=0, seed=seed) for seed in range(seeds)]
            for workers in WORKERS:
                found = [
                    loss(problem, optimizer, workers=workers, seed=seed, **options)
                    for seed in range(seeds)
                ]
                yield row(
                    f"{title}, {optimizer}, workers: {workers}",
                    *(float(np.median(found)), "loss", float(np.median(plain))),
                    target="<= 1.05",
                    runs={"sharing": found, "plain": plain},
                )


if __name__ == "__main__":
    given = sys.argv[1:]
    show(sharing_quality(*given[:1], *map(int, given[1:2])))
