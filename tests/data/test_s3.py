import numpy as np
import pytest
from tests.storage.stores import new_bucket, shared_s3

import sparkwright as sw
from sparkwright.data._exported import find_export

pytestmark = [
    pytest.mark.spark,
    # The server's own libraries warn.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture
def bucket(spark, monkeypatch):
    """URL of an empty bucket that this process and the executors see."""
    _, options, settings = shared_s3()
    monkeypatch.setitem(settings, "s3", options)
    environment = spark.sparkContext.environment
    before = dict(environment)
    environment.update({f"FSSPEC_S3_{name.upper()}": value for name, value in options.items()})
    try:
        yield new_bucket()
    finally:
        environment.clear()
        environment.update(before)


def test_executors_write_and_read_an_export(spark, bucket):
    url = f"{bucket}/a/export"
    features = np.arange(46, dtype=np.float32).reshape(23, 2)
    data = sw.data.from_arrays(spark, features, np.arange(23), partitions=3)
    export = data.export(url, batch_size=5)
    assert [file.examples for file in export.manifest.files] == [5, 5, 5, 5, 3]
    assert all(path.startswith(f"{url}/_minibatches-") for path in export.paths)
    assert sw.data.list_paths(url) == export.paths
    read = sw.data.from_minibatches(spark, url).collect()
    np.testing.assert_array_equal(np.sort(read.labels["labels"]), np.arange(23))
    np.testing.assert_array_equal(read.features["features"][:, 0], 2 * read.labels["labels"])
    with pytest.raises(sw.ConfigurationError, match="overwrite=True"):
        data.export(url, batch_size=5)
    second = data.export(url, batch_size=8, overwrite=True)
    assert sw.data.list_paths(url) == second.paths
    sw.data.validate(url, spark=spark)
    assert sw.data.delete_export(url)
    assert find_export(url) is None
    import fsspec

    assert fsspec.filesystem("s3").find(bucket) == []
    assert fsspec.filesystem("s3").exists(bucket)
