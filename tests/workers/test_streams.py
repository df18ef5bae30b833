import contextlib
import threading
import uuid
from collections import Counter
from pathlib import Path

import keras
import numpy as np
import pytest
from tests.cases import cases
from tests.spark.helpers import Hook, RecordingHook, dense, numbered, seen, weights
from tests.support.in_process import InProcessPool, fit
from tests.workers.test_training import averaging, sharing

import sparkwright as sw
from sparkwright.data import TfData
from sparkwright.workers.stream import StreamedShard

ROWS = 61


pytestmark = pytest.mark.usefixtures("in_process")


def dataset(rows=ROWS):
    """Examples whose first feature is their number, one by one."""
    import tensorflow as tf

    data = numbered(rows)
    return tf.data.Dataset.from_tensor_slices((data.features["features"], data.labels["labels"]))


def sharded(shard, shards):
    return dataset().shard(shards, shard).batch(7)


class Noisy:
    """A pipeline whose random step has no seed: the second feature."""

    def __call__(self, shard, shards):
        import tensorflow as tf

        def noisy(features, label):
            return features + tf.random.uniform([]) * tf.constant([0.0, 1.0, 0.0, 0.0]), label

        return dataset().shard(shards, shard).map(noisy).batch(4)


class Numbers(keras.utils.PyDataset):
    """Of each epoch, the number is the second feature."""

    def __init__(self, shard, shards):
        super().__init__()
        self.data = numbered(ROWS).take(slice(shard, None, shards))
        self.epoch = 0

    def __len__(self):
        return -(-len(self.data) // 4)

    def __getitem__(self, index):
        batch = self.data.take(slice(4 * index, 4 * index + 4))
        features = batch.features["features"].copy()
        features[:, 1] = self.epoch
        return features, batch.labels["labels"]

    def on_epoch_end(self):
        self.epoch += 1


class SecondFeature(Hook):
    """Writes down the first two features of each example."""

    def __init__(self, folder):
        self.folder = folder

    def pre_update(self, minibatch, model):
        np.save(Path(self.folder) / uuid.uuid4().hex, minibatch.features["features"][:, :2])


def second_features(folder):
    """Number of the example -> its second features."""
    found = {}
    for file in folder.glob("*.npy"):
        for number, second in np.load(file).tolist():
            found.setdefault(int(number), set()).add(second)
    return found


@pytest.mark.thorough
@cases(
    "master, examples",
    (averaging(), None),
    (averaging(share_work=True, prefetch_batches=0, averaging_frequency=3), ROWS),
    (sharing(piece_minibatches=2, minibatches_per_message=1), None),
    (sharing(workers=3), ROWS),
    ids=["averaging", "work", "sharing", "three"],
)
def test_every_example_of_every_shard_is_trained_once_per_epoch(tmp_path, master, examples):
    master = master.with_hooks(RecordingHook(str(tmp_path)))
    run = fit(dense(), master, TfData(sharded, examples=examples), epochs=3)
    assert seen(tmp_path) == Counter(dict.fromkeys(range(ROWS), 3))
    assert run.history["examples"].sum() == 3 * ROWS
    # Nobody trained another worker's shard, and minibatches are the master's, not the pipeline's.
    assert [w.rows for w in run.status.workers] == [
        len(range(k, ROWS, master.workers)) for k in range(master.workers)
    ]
    assert set(run.history["examples"]) == {5, 1}


@pytest.mark.thorough
@cases("master, make", (averaging(), Noisy()), (sharing(), Numbers), ids=["tf.data", "PyDataset"])
def test_augmentation_differs_from_epoch_to_epoch(tmp_path, master, make):
    import tensorflow as tf

    tf.random.set_seed(None)  # another test of this process may have set one
    master = master.with_hooks(SecondFeature(str(tmp_path)))
    fit(dense(), master, TfData(make, examples=ROWS), epochs=3)
    found = second_features(tmp_path)
    assert sorted(found) == list(range(ROWS))
    assert {len(values) for values in found.values()} == {3}
    if make is Numbers:
        assert all(values == {0, 1, 2} for values in found.values())


@pytest.mark.thorough
def test_pipeline_trains_like_its_data_and_is_seeded_by_the_epoch():

    def make(shard, shards, epoch):
        assert shards == 2
        return dataset(40).skip(20 * shard).take(20).shuffle(20, seed=epoch).batch(3)

    def trained(data):
        model = dense("adam")
        fit(model, averaging(), data, epochs=2)
        return weights(model)

    np.testing.assert_array_equal(trained(TfData(make)), trained(TfData(make)))

    def in_order(shard, shards):
        return dataset(40).skip(20 * shard).take(20).batch(6).repeat()

    normalizer = sw.data.Standardize.fit(numbered(40))
    by_files, drawn = dense(), dense()
    for model, data in ((by_files, numbered(40)), (drawn, TfData(in_order, examples=40))):
        with sw.ParallelWrapper(
            model, averaging(shuffle=False), cores_per_worker=1, normalizer=normalizer
        ) as wrapper:
            run = wrapper.start(data, epochs=2, validation=numbered(9), display=False)
            run.wait(60)
            assert run.status.validation[-1].loss > 0
    np.testing.assert_allclose(weights(drawn), weights(by_files), atol=1e-6)


def by_epoch(shard, shards, epoch):
    return dataset(40).shard(shards, shard).shuffle(20, seed=epoch).batch(3)


@pytest.mark.thorough
def test_resumed_run_draws_the_rest_of_its_epoch(tmp_path):
    undisturbed, resumed = dense("adam"), dense("adam")
    # Two rounds an epoch: the first checkpoint is in the middle of the second.
    master = averaging(checkpoint=sw.Checkpointing(str(tmp_path), every_rounds=3))
    fit(undisturbed, master, TfData(by_epoch, examples=40), epochs=3)
    checkpoint = str(min(tmp_path.glob("*.swc")))
    run = fit(resumed, master, TfData(by_epoch, examples=40), epochs=3, resume=checkpoint)
    np.testing.assert_array_equal(weights(resumed), weights(undisturbed))
    assert run.history["examples"].sum() == 3 * 40
    with pytest.raises(sw.ConfigurationError, match=r"`resume` needs .*TfData\(examples=None\)"):
        fit(dense("adam"), master, TfData(by_epoch), epochs=3, resume=checkpoint)
    unknown = tmp_path / "unknown"  # the number of examples, until the workers have come
    master = averaging(checkpoint=sw.Checkpointing(str(unknown), every_rounds=3))
    fit(dense("adam"), master, TfData(by_epoch), epochs=3)
    assert [*unknown.glob("*.swc")]


@pytest.mark.thorough
@cases("kind", averaging, sharing, ids=["averaging", "sharing"])
def test_replaced_worker_continues_in_its_shard(tmp_path, monkeypatch, kind):
    """Its counts are exact: what it had not done is drawn again and trained once."""
    asked, lost = [], threading.Event()

    class LostPool(InProcessPool):
        @contextlib.contextmanager
        def borrow(self, **options):
            with super().borrow(**options) as trainer:
                asked.append(trainer)
                yield trainer

    class Lose(RecordingHook):
        def pre_update(self, minibatch, model):
            super().pre_update(minibatch, model)
            if not lost.is_set() and len(list(tmp_path.glob("*.npy"))) > 15:
                lost.set()
                asked[1].close()
                threading.Event().wait(1.0)

    monkeypatch.setattr("sparkwright.local.TrainerPool", LostPool)
    master = kind(mesh=sw.MeshConfig(replacement_grace_s=30))
    hooks = Lose(str(tmp_path))
    monkeypatch.setattr("tests.support.in_process.sent", lambda value, **_: value)
    run = fit(dense(), master.with_hooks(hooks), TfData(sharded, examples=ROWS), epochs=3)
    assert len(asked) > 2
    counts = seen(tmp_path)
    assert set(counts) == set(range(ROWS))
    assert min(counts.values()) >= 3
    if kind is averaging:
        assert run.history["examples"].sum() == 3 * ROWS


@pytest.mark.thorough(but=["endless", "iterator", "examples", "shape"])
@cases(
    "make, examples, why",
    (sharded, 70, r"shard . of 2 must have 35 examples.* Received: 3. in epoch 1.*Repeat"),
    (lambda k, n: dataset().repeat().batch(4), None, "examples=None.*TfData.make, examples="),
    (lambda k, n: iter([]), ROWS, "must return a tf.data.Dataset.*Received: list_iterator"),
    (lambda k, n: dataset(), ROWS, "batch"),
    (lambda k, n: dataset().batch(4).map(lambda x, y: (x[:, :3], y)), ROWS, r"\[3\]|3"),
    ids=["early", "endless", "iterator", "examples", "shape"],
)
def test_invalid_pipeline_raises(make, examples, why):
    with pytest.raises(sw.DataError, match=why):
        fit(dense(), averaging(), TfData(make, examples=examples))


def test_non_functions_and_validation_pipelines_are_rejected():
    with pytest.raises(sw.ConfigurationError, match=r"Received: int\. A dataset cannot"):
        TfData(3)
    with pytest.raises(sw.ConfigurationError, match=r"`examples` must be .* examples=0"):
        TfData(sharded, examples=0)
    with pytest.raises(sw.ConfigurationError, match=r"`validation` must be .* Received: TfData"):
        fit(dense(), averaging(), numbered(9), validation=TfData(sharded))


def test_examples_in_the_window_are_cached_and_others_drawn_again():
    drawn = []

    class Drawn(Numbers):
        def __getitem__(self, index):
            drawn.append(index)
            return super().__getitem__(index)

    shard = StreamedShard(TfData(Drawn, examples=ROWS), worker=0, workers=1, window=8)

    def numbers(start, stop, epoch=0):
        rows = np.arange(start, stop, dtype=np.int64)[None]
        found = shard.gather(rows, epoch=epoch)
        assert found["features/features"].shape == (1, stop - start, 4)
        return found["features/features"][0, :, 0].tolist()

    assert numbers(0, 10) + numbers(10, 20) == list(range(20))
    assert drawn == [0, 1, 2, 3, 4]
    assert numbers(4, 22) == list(range(4, 22))  # within the window: nothing is drawn again
    assert drawn == [0, 1, 2, 3, 4, 5]
    assert numbers(0, 4, epoch=1) == list(range(4))  # the next epoch, ahead
    assert numbers(22, 26) == [22, 23, 24, 25]
    assert drawn == [0, 1, 2, 3, 4, 5, 0, 6]
    assert numbers(2, 6) == list(range(2, 6))  # before the window: from the beginning
    assert drawn == [0, 1, 2, 3, 4, 5, 0, 6, 0, 1]
    assert numbers(56, 61) == list(range(56, 61))
    shard.close()
