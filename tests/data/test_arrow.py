import hypothesis.extra.numpy as npst
import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
from hypothesis import given
from tests.cases import cases

from sparkwright.data import DataSet, from_bytes, row_count, to_bytes

DTYPES = [
    *("bool", "float16", "float32", "float64"),
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
]


def arrays(count):
    """1-D to 4-D arrays of `count` examples, NaN and infinities among them."""
    shapes = st.lists(st.integers(1, 3), max_size=3).map(lambda rest: (count, *rest))
    return st.sampled_from(DTYPES).flatmap(
        lambda dtype: shapes.flatmap(lambda shape: npst.arrays(dtype, shape))
    )


@st.composite
def datasets(draw):
    count = draw(st.integers(0, 5))
    names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=4)
    return DataSet(
        draw(st.dictionaries(names, arrays(count), min_size=1, max_size=3)),
        draw(st.dictionaries(names, arrays(count), max_size=2)),
        features_masks=draw(st.dictionaries(names, arrays(count), max_size=1)),
        labels_masks=draw(st.dictionaries(names, arrays(count), max_size=1)),
        weights=draw(st.none() | npst.arrays(np.float32, (count,))),
    )


def assert_round_trip(dataset):
    found, expected = from_bytes(to_bytes(dataset)).columns(), dataset.columns()
    assert list(found) == list(expected)
    for name, array in found.items():
        assert not (array.size and array.flags.writeable)  # views of the bytes
        assert array.dtype == expected[name].dtype
        assert array.shape == expected[name].shape
        assert array.tobytes() == expected[name].tobytes()


@given(dataset=datasets())
def test_values_round_trip_bit_for_bit(dataset):
    assert_round_trip(dataset)
    content = to_bytes(dataset)
    with pa.ipc.open_stream(content) as reader:
        schema_alone = reader.schema.serialize().to_pybytes()
    assert row_count(content) == row_count(schema_alone) == len(dataset)


@cases(
    "array",
    np.arange(5.0)[None],  # one example made from an array without an axis of examples
    np.broadcast_to(np.float32(7), (3, 4)),
    np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
    np.arange(24).reshape(4, 6)[::2, ::-3],
    np.arange(24).reshape(4, 6)[:, ::2] % 3 == 0,
    np.arange(6, dtype=np.dtype("i4").newbyteorder()).reshape(3, 2),
    np.arange(10.0).reshape(2, 5)[:, None, :],
    ids=["one", "broadcast", "fortran", "strided", "boolean", "byte-swapped", "inserted"],
)
def test_memory_layout_does_not_matter(array):
    assert_round_trip(DataSet(array))
