from typing import Any

import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from sparkwright.data import DataSet, from_bytes, row_count, to_bytes

DTYPES = [
    *("bool", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def arrays(count: int) -> st.SearchStrategy[Any]:
    """1-D to 4-D arrays of `count` examples, NaN and infinities among them."""
    shapes = st.lists(st.integers(1, 3), max_size=3).map(lambda rest: (count, *rest))
    return st.sampled_from(DTYPES).flatmap(
        lambda dtype: shapes.flatmap(lambda shape: npst.arrays(dtype, shape))
    )


@st.composite
def datasets(draw: st.DrawFn) -> DataSet:
    count = draw(st.integers(0, 5))
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
    return DataSet(
        draw(st.dictionaries(names, arrays(count), min_size=1, max_size=3)),
        draw(st.dictionaries(names, arrays(count), max_size=2)),
        weights=draw(st.none() | npst.arrays(np.float32, (count,))),
    )


def assert_round_trip(dataset: DataSet) -> None:
    found, expected = from_bytes(to_bytes(dataset)).columns(), dataset.columns()
    assert list(found) == list(expected)
    for name, array in found.items():
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes()


@given(dataset=datasets())
def test_what_goes_in_comes_out_bit_for_bit(dataset: DataSet) -> None:
    assert_round_trip(dataset)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(0,), (3,), (0, 2), (1, 4), (3, 2, 2), (0, 2, 2, 1)])
def test_every_dtype_survives_in_every_shape(dtype: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape) % 2
    assert_round_trip(DataSet(values.astype(dtype), values[..., None].astype(dtype)))


@pytest.mark.parametrize(
    "array",
    [
        np.arange(5.0)[None],  # one example made from an array without an axis of examples
        np.broadcast_to(np.float32(7), (3, 4)),
        np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        np.arange(24).reshape(4, 6)[::2, ::-3],
        np.arange(24).reshape(4, 6)[:, ::2] % 3 == 0,
        np.arange(6, dtype=np.dtype("i4").newbyteorder()).reshape(3, 2),
        np.arange(10.0).reshape(2, 5)[:, None, :],
    ],
    ids=["one", "broadcast", "fortran", "strided", "boolean", "byte-swapped", "inserted"],
)
def test_memory_layout_does_not_matter(array: Any) -> None:
    assert_round_trip(DataSet(array))


@given(dataset=datasets())
def test_rows_are_counted_from_the_schema_alone(dataset: DataSet) -> None:
    content = to_bytes(dataset)
    assert row_count(content) == len(dataset)
    with pa.ipc.open_stream(content) as reader:
        schema_alone = reader.schema.serialize().to_pybytes()
    assert row_count(schema_alone) == len(dataset)


def test_masks_and_weights_travel_too() -> None:
    assert_round_trip(
        DataSet(
            np.zeros((2, 3, 1)),
            np.zeros((2, 3)),
            features_masks=np.array([[True, False, True]] * 2),
            labels_masks=np.ones((2, 3), np.uint8),
            weights=np.array([0.5, 2.0], np.float32),
        )
    )


def test_what_comes_out_is_a_read_only_view_of_the_bytes() -> None:
    array = from_bytes(to_bytes(DataSet(np.zeros((4, 2), np.float32)))).features["features"]
    assert not array.flags.writeable
    assert not array.flags.owndata


SMALL = to_bytes(DataSet(np.arange(6.0).reshape(3, 2), np.zeros(3)))


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"1,2,3\n4,5,6\n", id="text"),
        pytest.param(bytes(4096), id="zeros"),
        pytest.param(SMALL[:100], id="cut-off-in-the-schema"),
        pytest.param(SMALL[: len(SMALL) - 120], id="cut-off-in-the-arrays"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\x7f", id="claims-a-huge-schema"),
    ],
)
def test_damaged_bytes_are_told_as_arrow_tells_them(content: bytes) -> None:
    with pytest.raises(pa.ArrowInvalid) as wanted:
        pa.ipc.open_stream(content).read_next_batch()
    for _ in range(2):
        with pytest.raises(pa.ArrowInvalid) as found:
            from_bytes(content)
        assert str(found.value) == str(wanted.value)


def test_bytes_that_begin_alike_hold_each_their_own() -> None:
    one, two = (np.full((3, 2), value) for value in (1.0, 2.0))
    same = [to_bytes(DataSet(array)) for array in (one, two)]
    assert same[0][:300] == same[1][:300]
    others = [to_bytes(DataSet(one[:2])), to_bytes(DataSet(one.reshape(3, 1, 2)))]
    for content, array in zip([*same, *others], [one, two, one[:2], one[:, None]], strict=True):
        for _ in range(2):
            np.testing.assert_array_equal(from_bytes(content).features["features"], array)
