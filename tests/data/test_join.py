"""Tables joined by key: the same as pandas does on one machine, exactly."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import sparkwright as sw
from sparkwright.data import ClassIndex, OneHot, join, records, sequences
from sparkwright.data._join_frames import column_types, source_frame

SEGMENTS = ["basic", "gold", "silver"]


def tables(seed: int = 0, keys: int = 40) -> tuple[pd.DataFrame, pd.DataFrame]:
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


@pytest.mark.spark
def test_joins_of_records_and_sequences_match_pandas(spark: Any) -> None:
    customers, visits = tables()
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
    assert not data.skipped().total


@pytest.mark.spark
def test_csv_sources_join_on_column_indices(spark: Any, tmp_path: Path) -> None:
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
    assert data.fingerprint is not None


@pytest.mark.spark
def test_two_record_sources_join_and_missing_rows_are_dropped(spark: Any) -> None:
    random = np.random.default_rng(2)
    left = pd.DataFrame({"k": [5, 1, 3, 2], "a": random.normal(size=4)})
    right = pd.DataFrame({"k": [2, 9, 5, 3, 5], "b": random.normal(size=5)})
    frames = {
        "left": records(spark.createDataFrame(left), key="k"),
        "right": records(spark.createDataFrame(right), key="k"),
    }
    wanted: dict[str, Any] = {"features": {"x": ("left", "a")}, "labels": {"y": ("right", "b")}}
    data = join(spark, frames, **wanted, missing="drop", duplicates="last")
    found = data.collect()
    merged = left.merge(right.drop_duplicates("k", keep="last"), on="k").sort_values("k")
    np.testing.assert_array_equal(found.features["x"][:, 0], merged.a.to_numpy(np.float32))
    np.testing.assert_array_equal(found.labels["y"], merged.b.to_numpy(np.float32))
    assert data.skipped().counts == {"missing key": 2}
    assert data.skipped().first == ("key 1: not in 'right'", "key 9: not in 'left'")
    first = join(spark, frames, **wanted, missing="drop", duplicates="first").collect()
    merged = left.merge(right.drop_duplicates("k"), on="k").sort_values("k")
    np.testing.assert_array_equal(first.labels["y"], merged.b.to_numpy(np.float32))
    with pytest.raises(sw.DataError, match=r"1 not in 'left', 1 not in 'right'; the first: 1 \("):
        join(spark, frames, **wanted, duplicates="last")
    with pytest.raises(sw.DataError, match=r"1 more than once in 'right'; the first: 5"):
        join(spark, frames, **wanted, missing="drop")


@pytest.mark.thorough
@pytest.mark.spark
def test_multi_column_keys_and_array_columns_are_joined(spark: Any) -> None:
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
@pytest.mark.spark
def test_csv_steps_are_sorted_as_numbers_even_if_one_is_text(spark: Any, tmp_path: Path) -> None:
    steps = [2**60 + i for i in (1, 12, 10, 11, 2, 3)] + [5, 40]
    lines = [*(f"1,{step},{step % 2**60}" for step in steps), "2,7,0", "2,x7,0", "3,1.5,1"]
    (tmp_path / "a.csv").write_text("\n".join(["k,t,v", *lines]))

    def joined(where: Any, **options: Any) -> Any:
        source = sequences(where, key="k", order="t")
        return join(spark, {"a": source}, features={"x": ("a", "v")}, **options)

    with pytest.raises(
        sw.DataError, match=r"key 2: the `order` of source 'a' .* x7 in column 't' of .*a\.csv"
    ):
        joined(str(tmp_path)).collect()

    data = joined(str(tmp_path), on_error="skip")
    found = data.collect().features["x"][:, :, 0]
    assert found.tolist() == [[5, 40, 1, 2, 3, 10, 11, 12], [1] + [0] * 7]
    assert data.skipped().counts == {"bad value": 1}
    assert data.fingerprint == joined(str(tmp_path), on_error="skip").fingerprint
    # Of a DataFrame, text is sorted as text.
    frame = spark.createDataFrame([(1, "10", 10.0), (1, "9", 9.0)], "k int, t string, v double")
    assert joined(frame).collect().features["x"].ravel().tolist() == [10, 9]


@pytest.mark.thorough
@pytest.mark.spark
def test_skipped_rows_affect_neither_classes_nor_lengths(spark: Any) -> None:
    nan = float("nan")
    people = [(1, 2.0), (2, 7.0), (3, nan), (None, 8.0), (None, nan), (4, 1.0), (5, 9.0)]
    steps = [(1, 0.0), (1, 1.0), (2, 0.0), (3, 0.0), (4, 0.0), (5, nan)]
    more = [(2, 1.0), (2, 2.0), (2, 3.0)]  # so labels of 2 differ in length
    frames = {"people": records(spark.createDataFrame(people, "k int, kind double"), key="k")}
    for name, rows in (("x", [*steps, *[(None, 0.0)] * 9]), ("y", [*steps, *more])):
        frames[name] = sequences(spark.createDataFrame(rows, "k int, t double"), key="k", order="t")
    data = join(
        spark,
        frames,
        features={"x": ("x", "t")},
        labels={"y": ("y", "t"), "kind": ("people", ClassIndex("kind"))},
        on_error="skip",
    )
    found = data.collect()
    assert data.class_names == {"kind": ("1.0", "2.0")}
    assert found.labels["kind"].tolist() == [1, 0]
    assert found.features["x"].tolist() == [[[0], [1]], [[0], [0]]]
    assert found.labels["y"].shape == (2, 2)
    assert data.skipped().counts == {"no key": 11, "lengths differ": 1, "missing value": 2}


@pytest.mark.thorough
@pytest.mark.spark
def test_invalid_sources_raise_with_their_names(spark: Any, tmp_path: Path) -> None:
    good, short, text = (tmp_path / f"{name}.csv" for name in ("good", "short", "text"))
    good.write_text("id,a\n1,2\n2,3\n3,4\n")
    short.write_text("id,a,b\n1,2,3\n2,7\n3,4,5\n")
    text.write_text("id,a\n1,2\nzwei,3\n")

    def joined(url: Any, **options: Any) -> Any:
        sources = {"good": records(str(good), key="id"), "other": records(str(url), key="id")}
        return join(spark, sources, features={"x": ("good", "a"), "y": ("other", "a")}, **options)

    with pytest.raises(
        sw.DataError, match=r"key 2: .*short\.csv, line 3: .*Received: 2 in '2,7'.*source 'other'"
    ):
        joined(short).collect()
    left = joined(short, on_error="skip")
    assert left.collect().features["y"].tolist() == [[2], [4]]
    assert left.skipped().counts == {"wrong number of columns": 1}
    with pytest.raises(sw.ConfigurationError, match=r"id of 'good': bigint; id of 'other': string"):
        joined(text)
    with pytest.raises(sw.DataError, match=r"nowhere\.csv"):
        joined(tmp_path / "nowhere.csv")
    with pytest.raises(
        sw.ConfigurationError,
        match=r"sources\['a'\]\.key` .*Received: 'no', of the columns 'id', 'a'",
    ):
        join(spark, {"a": records(str(good), key="no")}, features={"x": ("a", "a")})
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(sw.DataError, match=r"empty\.csv"):
        joined(tmp_path / "empty.csv")


@pytest.mark.thorough
@pytest.mark.spark
def test_csv_columns_have_the_narrowest_type(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "n,x,flag,day,time,text,unit,part,none\n"
        "1,1.5,true,2024-01-01,2024-01-01 10:00:00,07,1d,10:00,\n"
        "-2,1e3,false,2024-02-01,2024-02-01 00:00:00.5,x,2f,11:30,\n"
        "3\n,inf,,,,,,,NA\n"
    )
    frame = source_frame(spark, records(str(tmp_path), key="n"))
    assert list(column_types(frame).items()) == [
        ("n", "bigint"), ("x", "double"), ("flag", "boolean"), ("day", "date"),
        ("time", "timestamp"), ("text", "string"), ("unit", "string"), ("part", "string"),
        ("none", "string"),
    ]  # fmt: skip
