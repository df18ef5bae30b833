"""One table gives one DataSet, or an error each time, whatever carries it."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import sparkwright as sw
from sparkwright.data import read_arrow, read_csv, read_pandas, read_parquet

NAMES = ["a", "Sepal.Length", "x y", "q`t", "[0]", 'say "hi"', "ü", "A", "2"]
ROWS = 6
VALUES = {
    "number": st.floats(-1e6, 1e6, width=32) | st.none(),
    "integer": st.integers(-(2**24), 2**24),
    "text": st.sampled_from(["red", "green, dark", 'a "b"', "yes", "ünï"]) | st.none(),
    "truth": st.booleans(),
}


@st.composite
def tables(draw):
    """(columns, options): names -> values, and what a reader is asked for."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True))
    kinds = {name: draw(st.sampled_from([*VALUES])) for name in names}
    columns = {
        name: draw(st.lists(VALUES[kind], min_size=ROWS, max_size=ROWS))
        for name, kind in kinds.items()
    }
    label, *features = names
    # Numbers with fractions are no classes; CSV writes 1.0 as 1, which is one.
    among = {"number": [None], "integer": [None, "infer"]}.get(kinds[label], ["infer"])
    classes = draw(st.sampled_from(among))
    options = {
        "features": features,
        "labels": label,
        "classes": classes,
        "categories": {name: "infer" for name in features if kinds[name] in ("text", "truth")},
        "missing": draw(st.sampled_from(["raise", "skip"])),
        "one_hot": draw(st.booleans()) and classes is not None,
    }
    return columns, options


def carriers(columns, folder):
    """Readers of this table: a name, and a function of options."""
    table = pa.table(columns)
    pa.parquet.write_table(table, folder / "t.parquet")
    pa.feather.write_feather(table, folder / "t.feather")
    frame = pd.DataFrame(columns)
    nullable = frame.convert_dtypes(convert_integer=False, convert_floating=False)
    arrow = table.to_pandas(types_mapper=pd.ArrowDtype)
    pa.csv.write_csv(table, folder / "t.csv")
    return {
        "pandas": lambda **options: read_pandas(frame, **options),
        "pandas of Arrow": lambda **options: read_pandas(arrow, **options),
        "nullable pandas": lambda **options: read_pandas(nullable, **options),
        "Parquet": lambda **options: read_parquet(str(folder / "t.parquet"), **options),
        "Arrow": lambda **options: read_arrow(str(folder / "t.feather"), **options),
        "CSV": lambda **options: read_csv(str(folder / "t.csv"), **options),
    }


def found(read, options):
    """What a reader makes of the table, so that it can be compared."""
    try:
        made = read(**options)
    except (sw.DataError, sw.ConfigurationError):
        return "an error"
    data = made.data
    return {
        "features": data.features["features"].tolist(),
        "labels": data.labels["labels"].tolist(),
        "classes": made.class_names,
        "skipped": made.skipped.counts,
    }


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables())
def test_carriers_of_a_table_give_the_same_data(tmp_path, table):
    columns, options = table
    results = {name: found(read, options) for name, read in carriers(columns, tmp_path).items()}
    expected = results.pop("Parquet")
    assert results == dict.fromkeys(results, expected), json.dumps([columns, options], default=str)


@pytest.mark.spark
def test_a_spark_dataframe_gives_the_same_data(spark):
    columns = {"Sepal.Length": [0.5, 1.5, 2.5], "x y": [3, 2**24, -1], "kind`": [1, 0, 2]}
    features = ["Sepal.Length", "x y"]
    local = read_pandas(pd.DataFrame(columns), features=features, labels="kind`").data
    frame = spark.createDataFrame(pd.DataFrame(columns))
    read = sw.data.from_dataframe(frame, features=features, labels="kind`").collect()
    assert read.features["features"].tolist() == local.features["features"].tolist()
    assert read.labels["labels"].tolist() == local.labels["labels"].tolist()
