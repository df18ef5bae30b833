import numpy as np
import pytest
from tests.data.pictures import folder_of_classes
from tests.spark.helpers import Paced, dense, weights
from tests.storage.stores import shared_hdfs
from tests.waiting import wait_until

import sparkwright as sw
from sparkwright.storage.files import exists, remove_tree, write_bytes
from sparkwright.storage.listing import list_entries, list_files

pytestmark = [pytest.mark.spark, pytest.mark.stores]


@pytest.fixture(scope="session")
def hdfs():
    yield shared_hdfs()
    shared_hdfs().close()


@pytest.fixture
def folder(hdfs, request):
    url = f"{hdfs.url}/spark/{request.node.name}"
    remove_tree(url)
    return url


def master(**options):
    settings = {"workers": 2, "batch_size_per_worker": 8, "averaging_frequency": 1}
    return sw.ParameterAveragingTrainingMaster(**settings | {"seed": 1} | options)


def test_training_from_an_hdfs_export_equals_training_from_a_local_folder(
    spark, folder, tmp_path, blobs
):
    data = sw.data.from_arrays(
        spark, blobs.features["features"], blobs.labels["labels"], partitions=3
    )
    models = []
    for url in (str(tmp_path / "export"), f"{folder}/export"):
        export = data.export(url, batch_size=8)
        assert sw.data.list_paths(url) == export.paths
        assert all(path.startswith(url) for path in export.paths)
        sw.data.validate(url, spark=spark)
        network = sw.SparkNetwork(spark, dense(), master())
        network.fit_paths(export, epochs=2)
        models.append(network)
    local, remote = models
    np.testing.assert_array_equal(weights(remote.model), weights(local.model))
    found = remote.evaluate_paths(f"{folder}/export")
    np.testing.assert_array_equal(found.confusion, local.evaluate(blobs).confusion)
    second = data.export(f"{folder}/export", batch_size=10, overwrite=True)
    assert sw.data.list_paths(f"{folder}/export") == second.paths
    assert sw.data.delete_export(f"{folder}/export")
    assert not exists(f"{folder}/export") or list_files(f"{folder}/export") == []


def test_tables_records_and_images_are_read_from_hdfs(spark, folder, tmp_path, blobs):
    rows = np.column_stack([blobs.features["features"], blobs.labels["labels"]])
    for number, part in enumerate(np.array_split(rows, 3)):
        lines = ["a,b,c,d,y", *(",".join(f"{value:.6f}" for value in row) for row in part)]
        write_bytes(f"{folder}/csv/part-{number}.csv", "\n".join(lines).encode())
    columns = {"features": ["a", "b", "c", "d"], "labels": "y"}
    for url in (f"{folder}/csv", f"{folder}/csv/part-*.csv"):
        table = sw.data.from_csv(spark, url, **columns).collect()
        assert_same_features(table, blobs, atol=1e-5)
    data = sw.data.from_arrays(
        spark, blobs.features["features"], blobs.labels["labels"], partitions=3
    )
    for _ in range(2):
        assert sw.data.write_sequence_file(data, f"{folder}/records", overwrite=True) == 120
    assert_same_features(sw.data.from_sequence_file(spark, f"{folder}/records").collect(), blobs)
    assert list_entries(folder) == ["csv/", "records/"]
    pictures = folder_of_classes(tmp_path / "pictures")
    packed = sw.data.write_file_batches(str(pictures), f"{folder}/packed", batch_size=2, spark=None)
    assert all(url.startswith(f"{folder}/packed/") for url in packed)
    for file in pictures.rglob("*.*"):
        write_bytes(f"{folder}/loose/{file.relative_to(pictures)}", file.read_bytes())
    images = sw.data.from_images(spark, f"{folder}/loose", size=(8, 8)).collect()
    local = sw.data.from_images(spark, str(pictures), size=(8, 8)).collect()
    assert_same_features(images, local)


def assert_same_features(found, expected, atol=0.0):
    """In any order of the examples."""
    ours, theirs = (np.sort(each.features["features"], axis=0) for each in (found, expected))
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


def test_run_resumes_from_its_checkpoint_on_hdfs(spark, folder, blobs):
    undisturbed = dense("adam")
    sw.SparkNetwork(spark, undisturbed, master()).fit(blobs, epochs=5)
    checkpoint = sw.Checkpointing(f"{folder}/checkpoints", every_rounds=3)
    paced = master(checkpoint=checkpoint).with_hooks(Paced(0.02))
    run = sw.SparkNetwork(spark, dense("adam"), paced).start(blobs, epochs=5)
    wait_until(lambda: run.status.epoch >= 3, 60)
    run.stop()
    run.wait(20)
    network = sw.SparkNetwork(spark, dense("adam"), master(checkpoint=checkpoint))
    network.fit(blobs, epochs=5, resume=f"{folder}/checkpoints")
    np.testing.assert_array_equal(weights(network.model), weights(undisturbed))
    assert all(name.endswith(".swc") for name in list_entries(f"{folder}/checkpoints"))
