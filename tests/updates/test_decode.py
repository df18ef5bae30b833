import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases
from tests.updates.reference import GRID, bitmap, bits, decode, sparse

from sparkwright.errors import DataError, NetworkError
from sparkwright.updates import apply, encode_difference, selected_values

T = bits(0.5)
ternary = st.lists(st.sampled_from([-1, 0, 0, 0, 1]), min_size=1, max_size=100)


def message(words):
    return np.array(words, np.int64).astype(np.int32)


@given(values=st.lists(st.sampled_from([-1, -0.5, 0, 1]), min_size=1, max_size=100))
def test_half_codes_decode_to_minus_half_the_threshold(values):
    words = message(bitmap(values, 0.25))
    np.testing.assert_array_equal(decode(words, len(values)), np.array(values) * 0.25)
    indices, found = selected_values(words, len(values))
    assert dict(zip(indices.tolist(), found.tolist(), strict=True)) == {
        i: value * 0.25 for i, value in enumerate(values) if value
    }


@given(parts=st.lists(st.tuples(ternary, st.booleans()), min_size=1, max_size=5), data=st.data())
def test_segments_decode_one_after_another(parts, data):
    forms = [
        (bitmap if dense else sparse)(values, GRID * (i + 1))
        for i, (values, dense) in enumerate(parts)
    ]
    words = message([word for form in forms for word in form])
    expected = np.concatenate([np.array(v) * GRID * (i + 1) for i, (v, _) in enumerate(parts)])
    np.testing.assert_array_equal(decode(words, expected.size), expected)
    indices, found = selected_values(words, expected.size)
    np.testing.assert_array_equal(indices, np.flatnonzero(expected))
    np.testing.assert_array_equal(found, expected[indices])
    cuts = sorted(data.draw(st.lists(st.integers(0, expected.size), max_size=4)))
    vector, pieces = np.ones(expected.size), np.split(np.ones(expected.size, np.float32), cuts)
    apply(words, vector, pieces)
    np.testing.assert_array_equal(vector, 1 - expected)
    np.testing.assert_array_equal(np.concatenate(pieces), 1 - expected)


@cases("share", 0.001, 0.4)
def test_large_messages_reach_every_block_of_every_target(share):
    rng = np.random.default_rng(3)
    expected = np.where(rng.random(100_001) < share, rng.choice([-1, 1], 100_001), 0)
    shared = expected.astype(np.float32)
    local = np.split(np.zeros(100_001, np.float32), [5, 5, 32_768, 65_540])
    encoded = encode_difference(shared, local, 1.0)
    words = encoded.words
    assert [segment.dense for segment in encoded.segments] == [share > 0.1]
    np.testing.assert_array_equal(decode(words, 100_001), expected)
    apply(words, local)
    np.testing.assert_array_equal(np.concatenate(local), -expected)
    np.testing.assert_array_equal(selected_values(words, 100_001)[0], np.flatnonzero(expected))


def test_bytes_and_strided_words_are_read_like_an_array():
    unordered = message([3, 9, T, 0, 9, -2, 4])
    assert decode(unordered, 9).tolist() == [0, -0.5, 0, 0.5, 0, 0, 0, 0, 0.5]
    assert selected_values(unordered, 9)[0].tolist() == [1, 3, 8]
    words = message(bitmap([1, 0, -1] * 10, 0.5))
    strided = np.repeat(words, 2)[::2]
    for form in (words.tobytes(), bytearray(words.tobytes()), memoryview(words.tobytes()), strided):
        np.testing.assert_array_equal(decode(form, 30), decode(words, 30))


MALFORMED = {
    "nothing": [],
    "half a header": [1, 9, T],
    "an unknown type": [1, 9, T, 2, 1],
    "a negative type": [1, 9, T, -1, 1],
    "a negative count": [-1, 9, T, 0],
    "a negative length": [0, -9, T, 0],
    "a negative length of a bitmap": [-9, -9, T, 1],
    "more indices than elements": [10, 9, T, 0, *range(1, 11)],
    "too few indices": [3, 9, T, 0, 1, 2],
    "one index too many": [1, 9, T, 0, 1, 2],
    "index zero": [2, 9, T, 0, 1, 0],
    "an index too large": [1, 9, T, 0, 10],
    "a negative index too large": [1, 9, T, 0, -10],
    "the index without a positive": [1, 9, T, 0, -(2**31)],
    "a repeated index": [2, 9, T, 0, 3, 3],
    "a repeated index, other sign": [3, 9, T, 0, 3, 5, -3],
    "a shorter vector": [1, 8, T, 0, 1],
    "a longer vector": [1, 10, T, 0, 1],
    "another segment": [1, 9, T, 0, 1, 0, 1, T, 0],
    "threshold zero": [1, 9, 0, 0, 1],
    "a negative threshold": [1, 9, bits(-0.5), 0, 1],
    "an infinite threshold": [1, 9, bits(np.inf), 0, 1],
    "threshold NaN": [1, 9, bits(np.nan), 0, 1],
    "two lengths in a bitmap": [8, 9, T, 1, 1],
    "a bitmap without words": [9, 9, T, 1],
    "a bitmap with a word more": [9, 9, T, 1, 1, 0],
    "a present bit beyond the end": [9, 9, T, 1, 1 << 9],
    "a sign bit beyond the end": [9, 9, T, 1, 1 | 1 << 25],
    "the last bit": [9, 9, T, 1, -(2**31)],
}


def consumers():
    return [
        lambda words: apply(words, np.zeros(9), [np.zeros(4), np.zeros(5)]),
        lambda words: selected_values(words, 9),
    ]


@cases("what", *MALFORMED)
def test_malformed_messages_are_rejected(what):
    words = message(MALFORMED[what])
    for consume in consumers():
        with pytest.raises(NetworkError, match=r"^An update message must .* Received: "):
            consume(words)
        with pytest.raises(NetworkError):
            consume(words.tobytes())


@cases(
    "words",
    b"123",
    [1, 9, T, 0, 1],
    None,
    np.array([1, 9, T, 0, 1], np.int64),
    np.array([1, 9, T, 0, 1], np.float32),
    np.array([[1, 9, T, 0, 1]], np.int32),
    np.array([1, 9, T, 0, 1], ">i4"),
)
def test_values_that_are_not_word_arrays_raise(words):
    for consume in consumers():
        with pytest.raises(NetworkError):
            consume(words)


words_of_all_kinds = st.one_of(
    st.integers(-40, 40), st.integers(-(2**31), 2**31 - 1), st.just(T), st.just(30)
)


@given(st.lists(words_of_all_kinds, max_size=40), st.integers(1, 40))
def test_garbage_is_rejected_and_changes_nothing(garbage, size):
    words = message(garbage)
    shared, local = np.ones(size), [np.ones(size, np.float32)]
    try:
        apply(words, shared, local)
    except NetworkError:
        assert shared.tolist() == local[0].tolist() == [1.0] * size
    else:
        np.testing.assert_array_equal(shared, 1 - decode(words, size))


def test_targets_that_cannot_be_changed_are_rejected_before_any_is():
    words, good, fixed = message([1, 4, T, 0, 1]), np.ones(4), np.ones(4)
    fixed.flags.writeable = False
    with pytest.raises(DataError, match="writable"):
        apply(words, good, fixed)
    with pytest.raises(DataError, match="float32 or float64"):
        apply(words, good, [np.ones(4, np.int64)])
    with pytest.raises(NetworkError, match="must cover 3"):
        apply(words, good, np.ones(3))
    assert good.tolist() == [1.0] * 4
