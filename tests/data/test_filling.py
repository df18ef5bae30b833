import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as arrays

import sparkwright as sw
from sparkwright.data import DataSource, DataSplit, TableSchema, fill_missing

FRAME = pd.DataFrame(
    {
        "age": [20.0, None, 50.0, 23.0],
        "fare": [1.0, 3.0, 100.0, None],
        "port": ["a", "b", "a", "b"],
        "label": [0, 1, 1, 0],
    }
)


def numbers(read):
    return read.data.features["features"]


@pytest.mark.parametrize("by", ["mean", "median"])
def test_each_column_is_filled_with_its_own_value(by, tmp_path):
    FRAME.to_csv(tmp_path / "a.csv", index=False)
    options = {"labels": "label", "categories": {"port": "infer"}, "missing": by}
    read = sw.data.read_csv(tmp_path / "a.csv", **options)
    expected = FRAME.fillna(getattr(FRAME[["age", "fare"]], by)())
    np.testing.assert_array_equal(
        numbers(read)[:, :2], expected[["age", "fare"]].to_numpy(np.float32)
    )
    assert read.schema.fills == pytest.approx(getattr(FRAME[["age", "fare"]], by)().to_dict())
    np.testing.assert_array_equal(
        numbers(sw.data.read_pandas(FRAME, **{**options, "missing": by})), numbers(read)
    )
    # Other data, here without labels, gets the same numbers.
    schema = TableSchema.from_dict(read.schema.to_dict())
    assert schema == read.schema
    other = FRAME.assign(age=None, fare=7.0)
    later = sw.data.read_pandas(other, schema=schema.without_labels())
    assert numbers(later)[:, 0].tolist() == [np.float32(schema.fills["age"])] * 4
    assert numbers(later)[:, 1].tolist() == [7] * 4


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(1, 40), st.integers(1, 3)),
        elements=st.floats(width=32, allow_infinity=False),
    )
)
def test_medians_match_numpy(values):
    values[0] = 0.0  # no column without a number
    frame = pd.DataFrame(values, columns=[f"c{i}" for i in range(values.shape[1])])
    read = sw.data.read_pandas(frame, missing=float("nan"))
    (filled,) = fill_missing(read, by="median")
    expected = np.nanmedian(values.astype(np.float64), axis=0)
    np.testing.assert_array_equal(list(filled.schema.fills.values()), expected)
    assert not np.isnan(numbers(filled)).any()


def test_median_of_many_rows_is_that_of_a_sample():
    ages = np.random.default_rng(1).permutation(30_000).astype(np.float32)
    read = sw.data.read_pandas(pd.DataFrame({"age": ages}), missing="median")
    assert 0.48 * 30_000 < read.schema.fills["age"] < 0.52 * 30_000


def test_arrays_are_filled_per_element():
    frame = pd.DataFrame({"image": [[[1.0, 2.0]], [[None, 6.0]], [[3.0, 1.0]]]})
    read = sw.data.read_pandas(frame, missing="mean")
    assert numbers(read).tolist() == [[[1, 2]], [[2, 6]], [[3, 1]]]
    assert read.schema.fills == {"image[0]": 2, "image[1]": 3}
    later = sw.data.read_pandas(pd.DataFrame({"image": [None, [[7, 8]]]}), schema=read.schema)
    assert numbers(later).tolist() == [[[2, 3]], [[7, 8]]]


def test_unfillable_data_raises():
    with pytest.raises(sw.DataError, match=r"must hold a number\. Received: none in 'age'"):
        sw.data.read_pandas(FRAME.assign(age=np.nan)[["age", "label"]], missing="median")
    with pytest.raises(sw.ConfigurationError, match="`by` must be one of 'mean', 'median'"):
        fill_missing(sw.data.read_pandas(FRAME[["fare"]].iloc[:3]), by="mode")
    with pytest.raises(sw.DataError, match="'label' must hold a value"):
        sw.data.read_pandas(
            FRAME.assign(label=[None, 1, 0, 1])[["fare", "label"]], labels="label", missing="mean"
        )
    with pytest.raises(sw.ConfigurationError, match="`fills` must name each numeric feature"):
        TableSchema(columns=("a",), features={"x": ("a",)}, missing="mean")


@pytest.mark.thorough
@pytest.mark.parametrize("by", ["mean", "median"])
def test_split_source_is_filled_from_its_training_part(spark, tmp_path, by):
    random = np.random.default_rng(2)
    ages = random.lognormal(3, 1, 300).astype(np.float32)
    frame = pd.DataFrame({"row": range(300), "age": np.where(random.random(300) < 0.3, None, ages)})
    frame.assign(label=frame["row"] % 2).to_csv(tmp_path / "a.csv", index=False)
    source = DataSource(
        format="csv",
        url=str(tmp_path / "a.csv"),
        label="label",
        options={"missing": by},
        partitions=3,
        split=DataSplit(validation=0.0, test=0.3),
    )
    parts = source.load_split(spark)
    rows = parts["train"].collect().features["features"][:, 0].astype(int)
    known = frame["age"].iloc[rows].dropna().astype(np.float64)
    fills = parts["test"].schema.fills
    assert fills["age"] == pytest.approx(getattr(known, by)(), rel=1e-12)
    test = parts["test"].collect().features["features"]
    gaps = frame["age"].iloc[test[:, 0].astype(int)].isna().to_numpy()
    assert gaps.sum() > 5
    assert set(test[gaps, 1].tolist()) == {float(np.float32(fills["age"]))}
    names = {"sw": sw, "spark": spark}
    exec(source.to_code(splits=True) + source.split_code(), names)
    assert names["test"].collect().equals(parts["test"].collect())
    assert names["train"].schema == parts["train"].schema
