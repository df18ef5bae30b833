import numpy as np
import pytest
from tests.data.pictures import by_pillow, folder_of_classes, pixels, write
from tests.spark.helpers import dense

import sparkwright as sw

SIZE = (12, 16)
IS_DOG = "CAST(element_at(split({path}, '/'), -2) = 'dog' AS INT) AS label"


def by_label(data):
    """Images in the order of their numbers, by label."""
    found = data.collect()
    labels = found.labels["labels"]
    return {n: list(found.features["features"][labels == n]) for n in (0, 1)}


@pytest.mark.thorough
@pytest.mark.connect
@pytest.mark.versions
def test_file_bytes_become_the_pixels_of_from_images(spark, tmp_path):
    folder = folder_of_classes(tmp_path / "pictures")
    files = spark.read.format("binaryFile").option("recursiveFileLookup", True).load(str(folder))
    frame = files.orderBy("path").selectExpr("content", IS_DOG.format(path="path"))
    for options in ({}, {"channels": 1, "scale": False, "resize": "nearest"}):
        data = sw.data.from_dataframe(
            frame, features="content", labels="label", size=SIZE, **options
        )
        expected = sw.data.from_images(spark, str(folder), size=SIZE, seed=None, **options)
        ours, theirs = by_label(data), by_label(expected)
        for label in (0, 1):
            np.testing.assert_array_equal(ours[label], theirs[label])
            assert len(ours[label]) == 3


@pytest.mark.versions
def test_spark_image_source_rows_become_the_pixels_of_pillow(spark, tmp_path):
    paths = [
        write(tmp_path / "color.png", pixels(1)),
        write(tmp_path / "gray.png", pixels(2, (23, 31))),
        write(tmp_path / "clear.png", pixels(3, (23, 31, 4))),
    ]
    for path in paths:
        frame = spark.read.format("image").load(str(path)).selectExpr("image", "1.0F AS size")
        inputs = {"image": ["image"], "size": ["size"]}
        data = sw.data.from_dataframe(frame, features=inputs, size=SIZE, scale=False)
        found = data.collect().features
        np.testing.assert_array_equal(found["image"][0], by_pillow(path, SIZE))
        assert found["size"].tolist() == [[1.0]]


@pytest.mark.thorough
def test_image_errors_name_their_column(spark, tmp_path):
    write(tmp_path / "a.png", pixels(1))
    (tmp_path / "b.png").write_bytes(b"no image")
    files = spark.read.format("binaryFile").load(str(tmp_path / "*.png")).orderBy("path")
    with pytest.raises(sw.ConfigurationError, match=r"\['content'\], and size=None"):
        sw.data.from_dataframe(files, features="content")
    with pytest.raises(sw.DataError, match=r"a separate input. Received: \['content', 'length'\]"):
        sw.data.from_dataframe(files, features=["content", "length"], size=SIZE)
    with pytest.raises(sw.DataError, match=r"column 'content', .*b\.png with 8 bytes"):
        sw.data.from_dataframe(files.coalesce(1), features="content", size=SIZE).collect()
    images = spark.read.format("image").load(str(tmp_path / "*.png"))
    broken = sw.data.from_dataframe(images, features="image", size=SIZE)
    with pytest.raises(sw.DataError, match=r"column 'image'.*b\.png.*mode=-1.*dropInvalid"):
        broken.collect()
    network = sw.SparkNetwork(spark, dense(), sw.SharedTrainingMaster(workers=1))
    with pytest.raises(sw.DataError, match=r"'content' of type binary.*from_dataframe\(frame"):
        network.fit(files, features=["content"], label="length")


def test_stream_is_predicted_directly_and_in_micro_batches(spark, tmp_path):
    """The DataFrame of `foreachBatch` belongs to a session that Spark has cloned."""
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    rows = [(i, row.tolist()) for i, row in enumerate(x)]
    schema = "id int, features array<float>"
    spark.createDataFrame(rows, schema).repartition(2).write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    network = sw.SparkNetwork(spark, dense())
    seen = []

    def infer(batch, number):
        seen.append(number)
        # As a column, and as the kit's own data.
        network.predict(batch).write.mode("append").parquet(str(tmp_path / "out"))
        data = sw.data.from_dataframe(batch, features="features", labels="id")
        found = network.predict(data).collect()
        (outputs,) = found.features.values()
        expected = network.model.predict(x[found.labels["labels"]], verbose=0)
        np.testing.assert_allclose(outputs, expected, rtol=1e-5)

    batches = stream.parquet(str(tmp_path / "in")).writeStream.foreachBatch(infer)
    query = batches.option("checkpointLocation", str(tmp_path / "a")).trigger(availableNow=True)
    assert query.start().awaitTermination(120)
    assert seen == [0, 1]
    whole = network.predict(stream.parquet(str(tmp_path / "in"))).writeStream.format("parquet")
    query = whole.option("checkpointLocation", str(tmp_path / "b")).trigger(availableNow=True)
    assert query.start(str(tmp_path / "whole")).awaitTermination(120)
    for name in ("out", "whole"):
        found = spark.read.parquet(str(tmp_path / name)).orderBy("id").collect()
        assert [row.id for row in found] == list(range(40))
        expected = network.model.predict(x, verbose=0)
        np.testing.assert_allclose([row.prediction for row in found], expected, rtol=1e-5)
