import numpy as np
import pandas as pd
import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.data.frames import FrameColumns
from sparkwright.data.in_memory import conversion_of, in_memory

FLOWERS = pd.DataFrame(
    {
        "width": [1.5, 2.0, 3.0],
        "petals": pd.array([4, 5, 6], "Int64"),
        "wild": [True, False, True],
        "species": ["rose", "aster", "rose"],
    }
)
NUMBERS = FLOWERS.drop(columns="species")


def taken(data, **chosen):
    found = in_memory(data, chosen=FrameColumns(**chosen))
    assert found is not None
    return found


def test_frame_with_text_labels_gives_features_and_class_indices():
    found = taken(FLOWERS, label="species")
    assert found.data.features["features"].tolist() == [[1.5, 4, 1], [2, 5, 0], [3, 6, 1]]
    assert found.data.features["features"].dtype == np.float32
    assert found.data.labels["labels"].tolist() == [1, 0, 1]
    assert found.data.labels["labels"].dtype == np.int32
    assert found.class_names == {"labels": ("aster", "rose")}
    assert found.schema.feature_names() == ("width", "petals", "wild")


@cases("label, dtype", ([2, 0, 1], np.int64), ([0.5, 1, 2], np.float32), ([1, 0, 0], np.bool_))
def test_numeric_labels_stay_numeric(label, dtype):
    frame = NUMBERS.assign(label=np.array(label, dtype))
    found = taken(frame).data.labels["labels"]
    assert found.tolist() == label
    assert found.dtype.kind == ("f" if dtype == np.float32 else "i")


def test_unselected_columns_may_hold_anything():
    frame = FLOWERS.assign(when=pd.Timestamp(0), mixed=[1, "a", None])
    found = taken(frame, label="species", features=["petals", "width"])
    assert found.data.features["features"].tolist() == [[4, 1.5], [5, 2], [6, 3]]
    several = taken(frame, label=["petals", "wild"], features={"a": ["width"], "b": ["petals"]})
    assert several.data.features["b"].tolist() == [[4], [5], [6]]
    assert several.data.labels["labels"].shape == (3, 2)
    weighted = taken(FLOWERS, label="species", weights="width")
    assert weighted.data.weights.tolist() == [1.5, 2, 3]
    assert weighted.data.features["features"].shape == (3, 2)


def test_later_frame_with_reordered_columns_is_read_like_the_first():
    train = taken(FLOWERS, label="species")
    later = FLOWERS[["species", "wild", "petals", "width"]].iloc[[0]]
    found = in_memory(later, schema=train.schema)
    assert found.data.labels["labels"].tolist() == [1]
    assert found.data.features["features"].tolist() == [[1.5, 4, 1]]
    unlabeled = in_memory(later.drop(columns="species"), schema=train.schema)
    assert not unlabeled.data.labels


def test_pairs_of_arrays_frames_and_series_are_read():
    x, y = np.ones((3, 2), np.float32), np.array([0, 1, 1])
    found = in_memory((x, y, np.array([1.0, 2, 3])))
    assert found.data.features["features"] is x
    assert found.data.labels["labels"] is y
    assert found.data.weights.tolist() == [1, 2, 3]
    shuffled = FLOWERS["species"].set_axis([7, 8, 9])  # Keras ignores the index, too
    both = in_memory((NUMBERS, shuffled))
    assert both.data.equals(taken(FLOWERS, label="species").data)
    assert both.class_names == {"labels": ("aster", "rose")}
    texts = in_memory((NUMBERS, ["rose", "aster", "rose"], np.ones(3)))
    assert texts.data.labels["labels"].tolist() == [1, 0, 1]
    assert texts.data.weights is not None
    numbers = in_memory((NUMBERS, y))
    assert numbers.data.labels["labels"].tolist() == [0, 1, 1]
    named = in_memory(({"a": x, "b": NUMBERS[["width"]]}, {"out": FLOWERS["petals"].astype(int)}))
    assert sorted(named.data.columns()) == ["features/a", "features/b", "labels/out"]
    for features in (x, NUMBERS):
        alone = in_memory((features,))
        assert not alone.data.labels


def test_read_pandas_accepts_the_options_of_file_readers():
    found = sw.data.read_pandas(
        FLOWERS.assign(soil=["wet", None, "dry"]),
        labels="species",
        classes="infer",
        categories={"soil": ["dry", "wet"]},
        missing="skip",
    )
    assert found.data.features["features"].tolist() == [[1.5, 4, 1, 0, 1], [3, 6, 1, 1, 0]]
    assert found.skipped.counts == {"missing value": 1}
    pixels = pd.DataFrame({"image": [[[1, 2], [3, 4]]] * 2, "label": [0, 1]})
    images = sw.data.read_pandas(pixels, labels="label")
    assert images.data.features["features"].shape == (2, 2, 2)


def test_integer_is_the_column_of_that_name_or_else_of_that_place():
    frame = pd.DataFrame([[1.0, 3.0, 5.0, 7.0]]).drop(columns=[1]).assign(y=0)  # 0, 2, 3, y
    for choice in (2, [2], {"x": np.int64(2)}, range(2, 3)):
        found = sw.data.read_pandas(frame, features=choice, labels="y").data
        assert next(iter(found.features.values())).tolist() == [[5]]
    assert taken(frame, features=[3, 0], label="y").data.features["features"].tolist() == [[7, 1]]
    assert sw.data.read_pandas(frame, features=2, labels=-1).data.labels["labels"].tolist() == [0]
    with pytest.raises(sw.DataError, match=r"one of '0', '2', '3', 'y'\. Received: 1, which is a"):
        sw.data.read_pandas(frame, features=1, labels="y")
    texts = frame.set_axis(["a", "b", "c", "y"], axis=1)
    found = sw.data.read_pandas(texts, features=2, labels="y").data
    assert found.features["features"].tolist() == [[7]]


@cases(
    "data, chosen, message",
    (FLOWERS, {"label": "kind"}, r"unknown columns 'kind'\. The DataFrame has 'width'"),
    (FLOWERS, {"needs_label": True}, r'column to predict.*fit\(frame, label="…"\)'),
    (FLOWERS, {"label": "wild"}, r"'species' of type (str|object)\. 'species': .*get_dummies"),
    (
        FLOWERS.assign(when=pd.Timestamp(0), mixed=[1, "a", None]),
        {"label": "species"},
        r"'when' of type datetime64.*'mixed' of type object \(NoneType, int, str\)\..*dt\.days",
    ),
    (
        NUMBERS.assign(width=[1, None, 3], label=[None, 1, None]),
        {},
        r"missing values\. Received: 'width': 1, 'label': 2, of 3 rows\..*fillna",
    ),
    (NUMBERS.set_axis(["a", "b", "a"], axis=1), {}, "'a' more than once"),
    (NUMBERS.iloc[:0].assign(label=0), {}, "at least one example"),
    (NUMBERS.assign(width=np.inf, label=1), {}, "row 1: column 'width' must hold finite"),
)
def test_incompatible_frame_raises_with_its_columns(data, chosen, message):
    with pytest.raises(sw.DataError, match=message):
        taken(data, **chosen)


X = np.zeros((3, 2))


@cases(
    "data, message",
    ((X, np.zeros(4)), r"same number of examples.*'features/features': 3, 'labels/labels': 4"),
    ((NUMBERS, ["a"]), "3 features and 1 labels"),
    ((NUMBERS, "species"), r"Received: 'species'\..*label=…"),
    ((X, X, X, X), "a tuple of 4. Pass several inputs as a dict"),
    ((X, np.zeros(3), np.ones(2)), "'weights': 2"),
    ((np.array([[1, None]]), [0]), r"dtype object\): NoneType, int\. Convert"),
    ((X, np.array(["a", "b", "a"])), "must be numeric"),
    ((np.array([[1.0, np.nan], [1, 2]]), [0, 1]), "NaN in 1 of 2 examples"),
    (([[1, 2], [3]], [0, 1]), "each example of the same shape"),
)
def test_incompatible_arrays_raise(data, message):
    with pytest.raises(sw.DataError, match=message):
        in_memory(data)


def test_other_data_types_raise():
    assert in_memory([1, 2]) is None
    assert in_memory("url") is None


X, Y = np.arange(10.0, dtype=np.float32).reshape(5, 2), np.array([0, 1, 0, 1, 1])


def of_tensorflow():
    import tensorflow as tf

    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(2)


def of_keras():
    import keras

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 3

        def __getitem__(self, number):
            return X[2 * number : 2 * number + 2], Y[2 * number : 2 * number + 2]

    return Batches()


def of_torch():
    # PyTorch is not a dependency; its loader is an iterable of lists.
    loader = type("DataLoader", (list,), {"__module__": "torch.utils.data.dataloader"})
    return loader([[X[:3], Y[:3]], [X[3:], Y[3:]]])


@cases("make", of_tensorflow, of_keras, of_torch)
def test_finite_pipelines_are_read_once(make):
    found = taken(make()).data
    np.testing.assert_array_equal(found.features["features"], X)
    np.testing.assert_array_equal(found.labels["labels"], Y)


def test_endless_and_large_pipelines_raise(monkeypatch):
    with pytest.raises(sw.DataError, match=r"Received: endless batches of .*TfData\(make\)"):
        taken(of_tensorflow().repeat())
    monkeypatch.setattr("sparkwright.data._local_data._MOST_BYTES", 30)
    with pytest.raises(sw.DataError, match=r"Received: more batches of .*TfData\(make\)"):
        taken(of_tensorflow())


@cases(
    "data, remedy",
    ((x for x in [(X, Y)]), "zip"),
    (type("Frame", (), {"to_pandas": None})(), "to_pandas"),
    (type("Frame", (), {"to_spark": None, "to_pandas": None})(), "to_spark"),
    (object(), None),
    ids=["generator", "polars", "pandas on Spark", "other"],
)
def test_other_data_has_a_remedy(data, remedy):
    assert in_memory(data) is None
    assert conversion_of(data) == "" if remedy is None else remedy in conversion_of(data)


def test_infinite_numbers_raise():
    with pytest.raises(sw.DataError, match=r"'features' must be finite\. .* in 1 of 5 examples"):
        taken((np.where(X == 3, np.inf, X), Y))
