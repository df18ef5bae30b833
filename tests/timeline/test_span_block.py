"""Spans on their way."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import NetworkError
from sparkwright.timeline.spans import MOST_SPANS, SpanBlock


@given(st.lists(st.tuples(st.integers(0, 255), st.floats(-1e9, 1e9), st.floats(0, 1e6, width=32))))
def test_what_arrives_is_what_was_sent(spans: list[tuple[int, float, float]]) -> None:
    codes, starts_s, seconds = zip(*spans, strict=True) if spans else ((), (), ())
    block = SpanBlock(
        codes=np.array(codes, np.uint8),
        starts_s=np.array(starts_s, np.float64),
        seconds=np.array(seconds, np.float32),
    )
    payload = b"".join(block.to_payload())
    assert len(payload) == 13 * len(spans)
    for sent, found in zip(block, SpanBlock.from_payload(payload, len(spans)), strict=True):
        np.testing.assert_array_equal(sent, found)


@pytest.mark.parametrize(
    ("content", "count"), [(b"x" * 13, 2), (b"x" * 14, 1), (b"", -1), (b"", MOST_SPANS + 1)]
)
def test_a_message_of_another_length_is_refused(content: bytes, count: int) -> None:
    with pytest.raises(NetworkError, match="a message of spans must hold at most"):
        SpanBlock.from_payload(content, count)


def test_a_single_span_has_the_types_of_many() -> None:
    found = SpanBlock.of_one(7, 1.5, -1e-9)
    assert [each.dtype.str for each in found] == ["|u1", "<f8", "<f4"]
    assert [each.tolist() for each in found] == [[7], [1.5], [0.0]]
