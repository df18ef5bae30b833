"""Tables joined by key: the same as pandas does on one machine, exactly."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from sparkwright.data import ClassIndex, OneHot, join, records, sequences

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
def test_records_and_sequences_join_as_with_pandas(spark: Any) -> None:
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
