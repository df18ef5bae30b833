from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import Paced, RecordingHook, dense, numbered, seen, weights
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.runs._checkpoint import read_checkpoint


def model_of(seed=1, *, width=8, optimizer="adam"):
    """All kinds of state: Adam's, Dropout's seeds, BatchNormalization's, a frozen layer's."""
    import keras

    keras.utils.set_random_seed(seed)
    model = keras.Sequential(
        [
            keras.Input((4,)),
            keras.layers.Dense(width, trainable=False),
            keras.layers.Dense(8, activation="tanh"),
            keras.layers.BatchNormalization(),
            keras.layers.Dropout(0.3, seed=5),
            keras.layers.Dense(3, activation="softmax"),
        ],
        name="stateful",
    )
    model.compile(optimizer, "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


def master_of(kind, folder, every_rounds, **options):
    """A master of two workers that writes checkpoints if there is a folder."""
    checkpoint = folder and sw.Checkpointing(str(folder), every_rounds=every_rounds)
    settings = {"workers": 2, "batch_size_per_worker": 5, "seed": 1, "checkpoint": checkpoint}
    return kind(**settings | options)


def averaging(folder=None, **options):
    options = {"averaging_frequency": 2, **options}
    return master_of(sw.ParameterAveragingTrainingMaster, folder, 3, **options)


def sharing(folder=None, **options):
    options = {"threshold": sw.AdaptiveThreshold(initial=1e-3), **options}
    return master_of(sw.SharedTrainingMaster, folder, 4, **options)


def files(folder):
    return sorted(path.name for path in folder.glob("*.swc"))


OWN_MOMENTS = {
    "updater": "local",
    "outer_optimizer": sw.OuterOptimizer(),
    "exchange_precision": "int8",
}


@pytest.mark.versions
@pytest.mark.connect
@cases("communication", "ring", "spark")
def test_resumed_run_ends_with_identical_bits(
    spark, blobs, tmp_path, leaves_nothing, communication
):
    """Stopped somewhere in the second epoch; gone on from the last checkpoint, with a new model."""
    way = {"communication": communication}
    undisturbed = model_of()
    sw.SparkNetwork(spark, undisturbed, averaging(**way)).fit(blobs, epochs=3)
    master = averaging(tmp_path, **way).with_hooks(Paced(0.02))
    run = sw.SparkNetwork(spark, model_of(), master).start(blobs, epochs=3)
    wait_until(lambda: run.status.epoch >= 2, 60)
    run.stop()
    run.wait(20)
    assert 1 <= len(files(tmp_path)) <= 3
    resumed = model_of(seed=99)  # whatever it holds, the checkpoint counts
    again = sw.SparkNetwork(spark, resumed, averaging(tmp_path, **way))
    second = again.start(blobs, epochs=3, resume=str(tmp_path))
    second.wait(60)
    np.testing.assert_array_equal(weights(resumed), weights(undisturbed))
    assert int(resumed.optimizer.iterations) == int(undisturbed.optimizer.iterations)
    history = second.history
    assert history["examples"].sum() == 3 * 120  # what was trained before is in the log too
    assert history.groupby("worker")["step"].max().tolist() == [36, 36]
    assert (np.diff(history[history["worker"] == 0]["time_s"]) >= 0).all()


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
def test_resumed_gradient_sharing_run_continues_with_its_thresholds(blobs, tmp_path):
    def first_threshold(epochs, threshold):
        """The first one in the run's last epoch."""
        master = sharing(tmp_path, threshold=threshold, minibatches_per_message=1)
        resume = None if epochs == 1 else str(tmp_path)
        with sw.ParallelWrapper(model_of(), master, workers=2) as wrapper:
            run = wrapper.start(blobs, epochs=epochs, resume=resume)
            run.wait(60)
        assert files(tmp_path)
        assert run.history["examples"].sum() == epochs * 120
        return float(run.history[run.history["epoch"] == epochs]["threshold"].iloc[0])

    # Far too large, so that each message halves it.
    falling = sw.AdaptiveThreshold(initial=1e3, decay=0.5)
    assert first_threshold(1, falling) == 1e3
    # The checkpoint may lie a few messages before the epoch's end.
    assert first_threshold(2, falling) < 100
    # Another algorithm does not use them.
    assert first_threshold(3, replace(falling, initial=1e3, decay=0.99)) > 500


@pytest.mark.thorough
def test_saved_network_continues_with_its_thresholds(spark, blobs, tmp_path):
    falling = sw.AdaptiveThreshold(initial=1e3, decay=0.5)
    master = sharing(threshold=falling, minibatches_per_message=1)
    network, url = sw.SparkNetwork(spark, model_of(), master), str(tmp_path / "shared.keras")
    network.fit(blobs, epochs=1)
    network.save(url)
    run = sw.SparkNetwork.load(spark, url, master).start(blobs, epochs=1)
    run.wait(60)
    assert run.history["threshold"].max() < 1e3  # each worker has sent at least one message


@pytest.mark.thorough
@pytest.mark.usefixtures("in_process")
@cases(
    "options, settings",
    ({"use_ema": True, "gradient_accumulation_steps": 4}, {"averaging_frequency": {1: 1, 2: 4}}),
    ({}, {**OWN_MOMENTS, "averaging_frequency": {1: 1, 2: 4}}),
    ({}, {**OWN_MOMENTS, "averaging_delay": 2}),
    ({}, {"updater": "reset", "outer_optimizer": sw.OuterOptimizer(nesterov=False)}),
    ids=["accumulated", "own moments", "delayed", "reset"],
)
def test_run_of_one_process_is_resumed_on_this_machine(tmp_path, blobs, options, settings):
    import keras

    undisturbed, resumed = (
        model_of(seed=seed, optimizer=keras.optimizers.Adam(**options)) for seed in (1, 3)
    )

    def train(model, folder, **resume):
        checkpoint = folder and sw.Checkpointing(str(folder), every_rounds=3, keep=9)
        master = averaging(**settings, checkpoint=checkpoint)
        with sw.ParallelWrapper(model, master, workers=2) as wrapper:
            wrapper.fit(blobs, epochs=2, **resume)

    train(undisturbed, tmp_path)
    first = tmp_path / files(tmp_path)[0]  # within the first epoch
    # Before a checkpoint, workers wait for a delayed average: so both runs must write them.
    folder = tmp_path / "again" if "averaging_delay" in settings else None
    train(resumed, folder, resume=str(first))
    np.testing.assert_array_equal(weights(resumed), weights(undisturbed))
    if settings.get("updater") == "local":  # the model gets worker 0's
        mine, theirs = (model.optimizer.variables[2:] for model in (resumed, undisturbed))
        for one, other in zip(mine, theirs, strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.thorough(but=["1-ParameterAveragingTrainingMaster", "3-SharedTrainingMaster"])
@pytest.mark.usefixtures("in_process")
@cases("kind", sw.ParameterAveragingTrainingMaster, sw.SharedTrainingMaster)
@cases("workers", 1, 3)
def test_other_workers_train_what_a_checkpoint_left_once(tmp_path, kind, workers):
    data, folders = numbered(101), [tmp_path / name for name in ("first", "second", "third")]
    for folder in folders:
        folder.mkdir()

    def start(number, workers, folder, **options):
        """Train with checkpoints in `folder`; what each minibatch holds goes to a folder."""
        keep = sw.Checkpointing(str(folder), every_rounds=2, keep=99)
        master = master_of(kind, None, 1, workers=workers, checkpoint=keep)
        master = master.with_hooks(RecordingHook(str(folders[number])), Paced(0.03))
        with sw.ParallelWrapper(dense(), master, workers=workers) as wrapper:
            run = wrapper.start(data, epochs=2, display=False, **options)
            run.wait(120)
        return run

    checkpoints = tmp_path / "checkpoints"
    start(0, 2, checkpoints)
    first = checkpoints / files(checkpoints)[0]
    done = sum(read_checkpoint(str(first)).progress.examples)
    assert done < 101, "the checkpoint must be within an epoch"
    run = start(1, workers, checkpoints / "again", resume=str(first))
    # Each example once in the second epoch, and those that were left in the first.
    assert Counter(seen(folders[1]).values()) == {1: done, 2: 101 - done}
    assert run.history["examples"].sum() == 2 * 101
    assert set(run.history["worker"]) <= set(range(workers))
    again = checkpoints / "again" / files(checkpoints / "again")[0]
    left = 2 * 101 - sum(read_checkpoint(str(again)).progress.examples)
    run = start(2, 2, checkpoints / "back", resume=str(again))
    assert seen(folders[2]).total() == left
    assert run.history["examples"].sum() == 2 * 101
