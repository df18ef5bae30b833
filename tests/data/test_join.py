import numpy as np
import pandas as pd
import pytest
from pyspark.sql import functions as F
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import ClassIndex, OneHot, join, records, sequences

SEGMENTS = ["basic", "gold", "silver"]


def tables(seed=0, keys=40):
    """Customers in no order; visits of each, 1 to 6, in no order either."""
    random = np.random.default_rng(seed)
    customers = pd.DataFrame(
        {
            "id": random.permutation(keys),
            "age": random.integers(18, 90, keys),
            "income": random.normal(size=keys).round(3),
            "segment": random.choice(SEGMENTS, keys),
            "churned": random.integers(0, 2, keys),
        }
    )
    owner = np.repeat(np.arange(keys), random.integers(1, 7, keys))
    visits = pd.DataFrame(
        {
            "customer": owner,
            "day": random.permutation(len(owner)),
            "amount": random.normal(size=len(owner)).round(3),
            "items": random.integers(0, 9, len(owner)),
        }
    )
    return customers, visits.sample(frac=1, random_state=seed)


def test_joins_of_records_and_sequences_match_pandas(spark):
    customers, visits = tables(keys=600)  # more than are converted at once
    data = join(
        spark,
        {
            "customers": records(spark.createDataFrame(customers), key="id"),
            "visits": sequences(spark.createDataFrame(visits), key="customer", order="day"),
        },
        features={
            "profile": ("customers", ["age", "income", OneHot("segment", "infer")]),
            "history": ("visits", ["amount", "items"]),
        },
        labels={"churn": ("customers", "churned"), "segment": ("customers", ClassIndex("segment"))},
    )
    found = data.collect()
    expected = customers.sort_values("id")
    hot = pd.get_dummies(expected.segment).to_numpy(np.float32)
    profile = np.concatenate([expected[["age", "income"]].to_numpy(np.float32), hot], axis=1)
    np.testing.assert_array_equal(found.features["profile"], profile)
    np.testing.assert_array_equal(found.labels["churn"], expected.churned)
    assert found.labels["churn"].dtype == np.int32
    np.testing.assert_array_equal(found.labels["segment"], expected.segment.map(SEGMENTS.index))
    assert data.class_names == {"segment": tuple(SEGMENTS)}
    for row, (_, steps) in enumerate(visits.sort_values("day").groupby("customer")):
        values = steps[["amount", "items"]].to_numpy(np.float32)
        np.testing.assert_array_equal(found.features["history"][row, : len(steps)], values)
        assert not found.features["history"][row, len(steps) :].any()
        assert found.features_masks["history"][row].sum() == len(steps)
    assert found.features["history"].shape[1] == visits.groupby("customer").size().max()


def test_csv_sources_join_on_column_indices(spark, tmp_path):
    customers, visits = tables(seed=1)
    (tmp_path / "visits").mkdir()
    customers.to_csv(tmp_path / "customers.csv", index=False)
    for day, part in visits.groupby(visits.day % 3):
        part.to_csv(tmp_path / "visits" / f"{day}.csv", index=False, sep=";")
    data = join(
        spark,
        {
            "customers": records(str(tmp_path / "customers.csv"), key=0),
            "visits": sequences(str(tmp_path / "visits"), key=[0], order=-3, delimiter=";"),
        },
        features={
            "profile": ("customers", range(1, 3)),
            "history": ("visits", [slice(2, 4)]),
            "segment": ("customers", ClassIndex(3, SEGMENTS)),
        },
        labels={"items": ("visits", ["items"]), "income": ("customers", -3)},
        length=4,
        truncate=True,
        align="end",
        partitions=3,
    )
    found = data.collect()
    expected = customers.sort_values("id")
    np.testing.assert_array_equal(
        found.features["profile"], expected[["age", "income"]].to_numpy(np.float32)
    )
    np.testing.assert_array_equal(
        found.features["segment"][:, 0], expected.segment.map(SEGMENTS.index)
    )
    np.testing.assert_array_equal(found.labels["income"], expected.income.to_numpy(np.float32))
    for row, (_, steps) in enumerate(visits.sort_values("day").groupby("customer")):
        values = steps[["amount", "items"]].to_numpy(np.float32)[-4:]
        padded = np.pad(values, [(4 - len(values), 0), (0, 0)])
        np.testing.assert_array_equal(found.features["history"][row], padded)
        np.testing.assert_array_equal(found.labels["items"][row], padded[:, 1:])
        kept = np.arange(4) >= 4 - len(values)
        np.testing.assert_array_equal(found.labels_masks["items"][row], kept)
    assert data.rdd.getNumPartitions() == 3


def test_two_record_sources_join_as_spark_does(spark):
    left = spark.createDataFrame([(5, 5.0), (1, 1.0), (3, 3.0), (None, 0.0)], "k int, a double")
    right = [(5, 50.0), (9, 90.0), (5, 51.0), (3, 30.0), (None, 0.0)]
    frames = {
        "left": records(left, key="k"),
        "right": records(spark.createDataFrame(right, "k long, b double"), key="k"),
    }
    wanted = {"features": {"x": ("left", "a")}, "labels": {"y": ("right", "b")}}
    data = join(spark, frames, **wanted, missing="drop")
    found = data.collect()
    # A repeated key gives a row each, and null matches nothing.
    assert found.features["x"].tolist() == [[3], [5], [5]]
    assert sorted(found.labels["y"].tolist()) == [30, 50, 51]
    assert data.collect().labels["y"].tolist() == found.labels["y"].tolist()
    with pytest.raises(
        sw.DataError, match=r"key None: every key .*Received: none in '(left|right)'"
    ):
        join(spark, frames, **wanted).count()


def test_optional_sources_keep_keys_that_they_lack(spark):
    customers = spark.createDataFrame(
        [(2, 20.0, 1), (1, 10.0, 0), (3, 30.0, 1)], "id int, a double, y int"
    )
    visits = spark.createDataFrame(
        [(1, 1, 5.0), (3, 2, 6.0), (3, 1, 7.0), (9, 1, 8.0)], "id int, day int, b double"
    )
    plans = spark.createDataFrame([(3, "gold"), (2, "basic"), (9, "basic")], "id int, plan string")

    def joined(**options):
        return join(
            spark,
            {
                "customers": records(customers, key="id"),
                "visits": sequences(visits, key="id", order="day", optional=True),
                "plans": records(plans, key="id", optional=True),
            },
            features={
                "x": ("customers", "a"),
                "visits": ("visits", "b"),
                "plan": ("plans", OneHot("plan")),
            },
            labels={"y": ("customers", "y")},
            **options,
        )

    data = joined(missing="drop")
    found = data.collect()
    assert found.features["x"].tolist() == [[10], [20], [30]]
    assert found.features["visits"].tolist() == [[[5], [0]], [[0], [0]], [[7], [6]]]
    assert found.features_masks["visits"].tolist() == [[1, 0], [0, 0], [1, 1]]
    assert found.features["plan"].tolist() == [[0, 0], [1, 0], [0, 1]]
    assert found.labels["y"].tolist() == [0, 1, 1]
    assert [row.id for row in data.keys.collect()] == [1, 2, 3]
    with pytest.raises(sw.DataError, match=r"key 9: every key .*Received: none in 'customers'"):
        joined().count()


def test_every_source_may_be_optional(spark):
    left = spark.createDataFrame([(1, 1.0), (2, 2.0)], "k int, a double")
    right = spark.createDataFrame([(2, 20.0), (3, 30.0)], "k int, b double")
    data = join(
        spark,
        {n: records(frame, key="k", optional=True) for n, frame in {"l": left, "r": right}.items()},
        features={"x": ("l", "a"), "z": ("r", "b")},
    )
    found = data.collect()
    assert found.features["x"].tolist() == [[1], [2], [0]]
    assert found.features["z"].tolist() == [[0], [20], [30]]
    assert [row.k for row in data.keys.collect()] == [1, 2, 3]


@cases(
    "features, labels, says",
    ({"x": ("l", "a")}, {"y": ("r", "b")}, "labels must be of a source that has every key"),
    ({"x": ("r", ClassIndex("b", 2))}, None, "Use `OneHot`"),
    ids=str,
)
def test_zeros_are_never_labels_or_classes(spark, features, labels, says):
    frame = spark.createDataFrame([(1, 1)], "k int, b int").withColumn("a", F.col("b"))
    sources = {"l": records(frame, key="k"), "r": records(frame, key="k", optional=True)}
    with pytest.raises(sw.ConfigurationError, match=says):
        join(spark, sources, features=features, labels=labels)


@pytest.mark.thorough
def test_multi_column_keys_and_array_columns_are_joined(spark):
    people = spark.createDataFrame(
        [("b", 1, [1.0, 2.0]), ("a", 2, [3.0, 4.0]), ("a", 1, [5.0, 6.0])],
        "city string, number int, vector array<double>",
    )
    prices = spark.createDataFrame(
        [("a", 1, 7.0, True), ("b", 1, 8.0, False), ("a", 2, 9.0, True)],
        "town string, house long, `price.in €` double, sold boolean",
    )
    found = join(
        spark,
        {
            "people": records(people, key=["city", "number"]),
            "prices": records(prices, key=["town", "house"]),
        },
        features={"x": ("people", "vector")},
        labels={"y": ("prices", "price.in €"), "sold": ("prices", "sold")},
    ).collect()
    assert found.features["x"].tolist() == [[5, 6], [3, 4], [1, 2]]
    assert found.labels["y"].tolist() == [7, 9, 8]
    assert found.labels["sold"].tolist() == [1, 1, 0]


@pytest.mark.thorough
def test_invalid_sources_raise_with_their_names(spark, tmp_path):
    files = {
        "good": "id,a\n1,2\n2,3\n",
        "text": "id,a\n1,2\nzwei,3\n",
        "short": "id,a\n1,2\n2\n",
        "steps": "id,a,t\n1,2,10\n1,3,x9\n",
    }
    for name, content in files.items():
        (tmp_path / f"{name}.csv").write_text(content)

    def joined(name, source=records, **options):
        url = str(tmp_path / f"{name}.csv")
        sources = {
            "good": records(str(tmp_path / "good.csv"), key="id"),
            "other": source(url, **{"key": "id", **options}),
        }
        return join(spark, sources, features={"x": ("good", "a"), "y": ("other", "a")})

    with pytest.raises(sw.ConfigurationError, match=r"id of 'good': int; id of 'other': string"):
        joined("text")
    with pytest.raises(sw.DataError, match=r"key 2: source 'other': column 'a' must hold a value"):
        joined("short").collect()
    with pytest.raises(sw.DataError, match=r"`order` of CSV files .*text in 't' of 'other'"):
        joined("steps", sequences, order="t")
    with pytest.raises(
        sw.ConfigurationError,
        match=r"sources\['other'\]\.key` .*Received: 'no', of the columns 'id', 'a'",
    ):
        joined("good", key="no")
    with pytest.raises(Exception, match=r"nowhere\.csv"):
        joined("nowhere")
    with pytest.raises(sw.DataError, match="at least one key must be in every source"):
        join(
            spark,
            {"a": sequences(spark.createDataFrame([], "id int, t int"), key="id", order="t")},
            features={"x": ("a", "t")},
        )
