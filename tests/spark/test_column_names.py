"""Names of columns are not SQL: each use gives the same with awkward names as with plain ones."""

import keras
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from tests.spark.helpers import dense, weights

import sparkwright as sw
from sparkwright.data import join, records
from sparkwright.data.spark_columns import selected

pytestmark = pytest.mark.spark
ROWS = 24
MASTER = sw.ParameterAveragingTrainingMaster(workers=1, batch_size_per_worker=8, seed=1)
# In the place of: id, a, b, c, d, y, kind, w, held. "s.f" is not the field f of the column s.
NAMES = ["s.f", "Sepal.Length", "back`tick", "x[0]", 'q"uo"te', "it's (y)", "a b", "CASE", "case"]


@pytest.fixture(scope="module")
def plain(spark):
    """A table, with a struct that no use asks for."""
    random = np.random.default_rng(2)
    rows = [
        (number, *map(float, random.normal(size=4)), number % 3, "abc"[number % 3], 0.5, number < 8)
        for number in range(ROWS)
    ]
    kinds = "id int, a double, b double, c double, d double, y int, k string, w double"
    frame = spark.createDataFrame(rows, f"{kinds}, held boolean").repartition(1)
    return frame.selectExpr("*", "named_struct('f', 7.0) AS s").cache()


def from_columns(frame, names):
    _, a, b, c, d, y, _, w, _ = names
    data = sw.data.from_dataframe(frame, features=[a, b, c, d], labels={"y": [y]}, weights=w)
    found = data.collect()
    return found.features["features"], found.labels["y"], found.weights


def as_vectors(frame, names):
    from pyspark.ml.feature import VectorAssembler

    _, a, b, *_ = names
    frame = frame.toDF(*range_names(len(frame.columns)))
    frame = VectorAssembler(inputCols=["p1", "p2"], outputCol="v").transform(frame)
    frame = frame.select("v", "p3").toDF(a, b)
    return sw.data.from_dataframe(frame, features={"x": [a], "z": [b]}).collect().features["x"]


def trained(frame, names):
    _, a, b, c, d, y, _, w, _ = names
    model = dense()
    network = sw.SparkNetwork(frame.sparkSession, model, MASTER)
    network.fit(frame, features=[a, b, c, d], label=y, sample_weight=w, epochs=1)
    (row, *_) = (
        network.predict(frame, output_column="found.here")
        .toDF(*range_names(len(frame.columns) + 1))
        .collect()
    )
    evaluation = network.evaluate(frame)
    return weights(model), np.array(row[-1]), np.array(evaluation.accuracy)


def range_names(count):
    return [f"p{number}" for number in range(count)]


def joined(frame, names):
    id, a, b, c, _, _, k, *_ = names
    left, right = selected(frame, [id, a, b]), selected(frame, [id, c, k])
    data = join(
        frame.sparkSession,
        {"left": records(left, key=id), "right": records(right, key=id)},
        features={"x": ("left", [a, b])},
        labels={"y": ("right", c)},
        partitions=1,
    ).collect()
    return data.features["x"], data.labels["y"]


def adapted(frame, names):
    layer = keras.layers.Normalization(axis=None)
    sw.adapt(layer, frame, column=names[1])
    return np.array(layer.mean), np.array(layer.variance)


@pytest.mark.parametrize(
    "use",
    [
        *(from_columns, as_vectors, joined, adapted),
        pytest.param(trained, marks=pytest.mark.thorough),
    ],
)
def test_each_use_of_a_frame_gives_the_same_with_any_names(plain, use):
    expected = use(plain, plain.columns[:-1])
    found = use(plain.toDF(*NAMES, "s"), NAMES)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=12)
@given(
    st.lists(
        st.text("aA.`[]\"'() *-0é\t", min_size=1, max_size=4), min_size=1, max_size=5, unique=True
    ),
    st.randoms(use_true_random=False),
)
def test_columns_are_selected_by_any_names_in_any_order(spark, names, random):
    frame = spark.range(1).selectExpr(*(f"{number} AS c{number}" for number in range(len(names))))
    wanted = random.sample(names, random.randint(1, len(names)))
    (row,) = selected(frame.toDF(*names), wanted).collect()
    assert list(row) == [names.index(name) for name in wanted]


def test_names_of_several_columns_raise(spark):
    frame = spark.range(3).selectExpr("id AS a", "id AS b").toDF("a", "a")
    with pytest.raises(sw.DataError, match=r"unique names. Received: \['a'\] several times"):
        sw.data.from_dataframe(frame, features=["a"])
