import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases
from tests.updates.reference import (
    bitmap,
    decode,
    encode,
    grid_thresholds,
    grid_vectors,
    signs,
    sparse,
)

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.updates import (
    Encoded,
    EncodedSegment,
    apply,
    encode_difference,
)

# The example of the format's own tests.
GOLDEN = [0, -6e-4, 1e-3, -1e-3, 0, 0]
GOLDEN_WORDS = [6, 6, 981668463, 1, 655372]  # as DL4J encodes it
DECODED = [0, -5e-4, 1e-3, -1e-3, 0, 0]


def test_golden_bitmap_without_half_codes():
    residual = np.array(GOLDEN, np.float32)
    encoded = encode(residual, 1e-3)
    assert encoded.words.dtype == np.int32
    assert encoded.words.tolist() == [6, 6, 981668463, 1, 0x0008000C]
    assert encoded.selected == 2
    # A half stays in the residual; as a message of DL4J it would be sent.
    np.testing.assert_allclose(residual, [0, -6e-4, 0, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(decode(np.array(GOLDEN_WORDS, np.int32), 6), DECODED)


def test_golden_sparse_message():
    residual = np.zeros(100, np.float32)
    residual[[2, 40, 99]] = [2e-3, -1e-3, 5.0]
    assert encode(residual, 1e-3).words.tolist() == [3, 100, 981668463, 0, 3, -41, 100]
    np.testing.assert_allclose(residual[[2, 40, 99]], [1e-3, 0, 4.999])


@given(residual=grid_vectors(), threshold=grid_thresholds)
def test_message_is_the_shorter_of_both_formats(residual, threshold):
    values = signs(residual, threshold)
    expected = min(sparse(values, threshold), bitmap(values, threshold), key=len)
    wide = np.repeat(residual, 2).reshape(-1, 2)
    assert encode(wide[:, 1], threshold).words.tolist() == expected  # strided
    np.testing.assert_array_equal(wide[:, 0], residual)
    words = encode(residual, threshold).words
    assert words.tolist() == expected
    assert words.size < residual.size / 16 + 6


@given(
    residual=grid_vectors(),
    threshold=grid_thresholds,
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_message_plus_residual_conserves_the_update(residual, threshold, dtype):
    before = residual.astype(dtype)
    after = before.copy()
    words = encode(after, threshold).words
    np.testing.assert_array_equal(after + decode(words, after.size).astype(dtype), before)
    assert after.dtype == dtype


# Several blocks; sparse, a bitmap from the first block on, and one that starts in the third.
@cases("shares", (0, 0, 0), (1e-3, 1e-3, 0.01), (0.6, 0.3, 1), (0, 1e-2, 0.5))
@cases("dtype", np.float32, np.float64)
def test_large_vectors_are_encoded_as_small_ones(shares, dtype):
    rng = np.random.default_rng(7)
    share = np.concatenate([np.full(32_768, share) for share in shares])[:80_003]
    residual = np.where(rng.random(share.size) < share, 3.0, 0.25).astype(dtype)
    residual *= rng.choice([-1, 1], residual.size)
    values = signs(residual, 1.0)
    expected = min(sparse(values, 1.0), bitmap(values, 1.0), key=len)
    shared, local = residual + 5, np.full(residual.size, 5, dtype)
    after = residual.copy()
    words = encode(after, 1.0).words
    assert words.tolist() == expected
    np.testing.assert_array_equal(after, residual - np.array(values))
    pieces = np.split(local, [1, 32_767, 32_768, 40_000])
    assert encode_difference(shared, pieces, 1.0).words.tolist() == expected
    np.testing.assert_array_equal(shared, after + 5)


@given(
    residuals=st.lists(grid_vectors(min_size=0, max_size=60), min_size=1, max_size=5),
    threshold=grid_thresholds,
    data=st.data(),
)
def test_difference_subtracts_the_message_from_the_shared_vector(residuals, threshold, data):
    residual = np.concatenate(residuals)
    local = [np.arange(each.size, dtype=np.float32) for each in residuals]
    shared = residual + np.concatenate(local)
    before, kept = shared.copy(), [array.copy() for array in local]
    for array in local:
        array.flags.writeable = False
    thresholds = data.draw(
        st.one_of(
            st.just(threshold), st.lists(grid_thresholds, min_size=len(local), max_size=len(local))
        )
    )
    encoded = encode_difference(shared, local, thresholds)
    np.testing.assert_array_equal(before - shared, decode(encoded.words, shared.size))
    for array, was in zip(local, kept, strict=True):
        np.testing.assert_array_equal(array, was)
    assert encoded.size == shared.size
    assert sum(segment.length for segment in encoded.segments) == encoded.words.size


@given(residuals=st.lists(grid_vectors(max_size=60), min_size=1, max_size=5), data=st.data())
def test_one_threshold_each_gives_a_segment_each(residuals, data):
    size = len(residuals)
    thresholds = data.draw(st.lists(grid_thresholds, min_size=size, max_size=size))
    alone = [encode(r.copy(), t) for r, t in zip(residuals, thresholds, strict=True)]
    shared = np.concatenate(residuals)
    together = encode_difference(shared, [np.zeros(r.size) for r in residuals], thresholds)
    assert together.words.tolist() == [word for each in alone for word in each.words.tolist()]
    assert together.thresholds == tuple(thresholds)
    assert together.selected == sum(each.selected for each in alone)


@given(residual=grid_vectors(max_size=60), dtype=st.sampled_from([np.float32, np.float64]))
def test_sender_and_receiver_end_with_the_same_bits(residual, dtype):
    start = (residual * np.float32(1.1)).astype(dtype)
    sender, receiver = start.copy(), start.copy()
    encoded = encode_difference(sender, [np.zeros(start.size, dtype)], 0.3)
    apply(encoded.words, receiver)
    assert sender.tobytes() == receiver.tobytes()


def test_sparsity_is_words_over_vector_length():
    residual = np.zeros(1000, np.float32)
    residual[:3] = 1
    encoded = encode(residual, 0.5)
    assert encoded.segments[0].sparsity == 3 / 1000
    assert encoded.size_bytes == 28
    assert encode(np.ones(1000, np.float32), 0.5).segments[0].sparsity == 1 / 16  # a bitmap


def test_fields_describe_each_segment():
    shared = np.zeros(140, np.float32)
    shared[[1, 2]] = 1
    shared[100:] = -1
    encoded = encode_difference(shared, [np.zeros(100), np.zeros(40)], [0.5, 0.25])
    assert isinstance(encoded, Encoded)
    assert encoded.segments == (
        EncodedSegment(size=100, threshold=0.5, selected=2, dense=False, length=6),
        EncodedSegment(size=40, threshold=0.25, selected=40, dense=True, length=7),
    )


def test_nan_is_never_sent_and_infinity_as_the_threshold():
    residual = np.array([np.nan, np.inf, -np.inf] + [0.0] * 97, np.float32)
    assert decode(encode(residual, 0.5).words, 100).tolist()[:3] == [0, 0.5, -0.5]
    assert encode(np.array([np.nan] * 9 + [1.0] * 90, np.float32), 0.5).selected == 90
    both = np.array([np.inf], np.float32)
    assert encode_difference(both, [both.copy()], 0.5).selected == 0


@cases("threshold", 0, -1.0, np.nan, np.inf, 1e-60, 1e60, True, "1", None)
def test_invalid_thresholds_raise(threshold):
    residual = np.ones(5, np.float32)
    with pytest.raises(ConfigurationError, match="threshold="):
        encode(residual, threshold)
    with pytest.raises(ConfigurationError, match="threshold="):
        encode_difference(residual, [np.zeros(2), np.zeros(3)], [1.0, threshold])
    assert residual.tolist() == [1.0] * 5


def read_only():
    found = np.ones(5, np.float32)
    found.flags.writeable = False
    return found


@cases(
    "call, text",
    (lambda: encode_difference(np.ones(5, np.float32), [np.zeros(4)], 0.5), "4 and 5 elements"),
    (lambda: encode(np.ones(5, np.int32), 0.5), "float32 or float64"),
    (lambda: encode(np.ones((5, 1), np.float32), 0.5), "1-D"),
    (lambda: encode_difference([1.0, 2.0], [np.zeros(2)], 0.5), "1-D"),
    (lambda: encode_difference(np.ones(5), [np.zeros(5)], [0.5, 0.5]), "2 thresholds, 1 var"),
    (lambda: encode(read_only(), 0.5), "writable"),
)
def test_vectors_that_do_not_fit_are_rejected(call, text):
    with pytest.raises((DataError, ConfigurationError), match=text):
        call()
