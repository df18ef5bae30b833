import json
import struct

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.errors import NetworkError
from sparkwright.mesh.framing import (
    HEADER,
    MAX_FIELDS_BYTES,
    MAX_PAYLOAD_BYTES,
    decode_fields,
    decode_header,
    encode_head,
)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(), json_values, max_size=4)


@given(kind=st.text(), fields=json_objects, payload_bytes=st.integers(0, MAX_PAYLOAD_BYTES))
def test_encoding_round_trips(kind, fields, payload_bytes):
    head = encode_head(kind, fields, payload_bytes)
    header, body = head[: HEADER.size], head[HEADER.size :]
    assert decode_header(header) == (len(body), payload_bytes)
    assert decode_fields(body) == (kind, fields)


@given(header=st.binary(min_size=HEADER.size, max_size=HEADER.size))
def test_any_header_is_decoded_or_rejected(header):
    with pytest.raises(NetworkError, match=r"must start with b'SWR1'\. Received: "):
        decode_header(b"X" + header[1:])
    try:
        fields_bytes, payload_bytes = decode_header(b"SWR1" + header[4:])
    except NetworkError:
        return
    assert fields_bytes <= MAX_FIELDS_BYTES
    assert payload_bytes <= MAX_PAYLOAD_BYTES


@given(body=st.binary() | json_values.map(lambda value: json.dumps(value).encode()))
def test_any_fields_are_decoded_or_rejected(body):
    for content in (body, bytearray(body)):
        try:
            kind, fields = decode_fields(content)
        except NetworkError:
            continue
        assert isinstance(kind, str)
        assert isinstance(fields, dict)


@cases(
    "body",
    *(b"", b'"kind"', b'["stop"]', b'["stop", []]', b"[1, {}]", b'["stop", {}, {}]'),
    *(b'["stop", {}', b'["\xff\xfe", {}]'),
    b"[" * 1_000_000,
    b'{"a":' * 1_000_000,
    b'["stop", {"n": ' + b"9" * 100_000 + b"}]",
    ids=lambda body: repr(body[:20]),
)
def test_fields_of_another_form_are_rejected(body):
    with pytest.raises(NetworkError, match="a message's fields must be"):
        decode_fields(body)


def test_an_error_shows_only_the_beginning_of_garbage():
    with pytest.raises(NetworkError) as refused:
        decode_fields(json.dumps(["x" * 100_000]).encode())
    assert len(str(refused.value)) < 300


@cases(
    "fields_bytes, payload_bytes, limit",
    *((MAX_FIELDS_BYTES + 1, 0, {}), (2**32 - 1, 0, {}), (0, MAX_PAYLOAD_BYTES + 1, {})),
    *((0, 2**64 - 1, {}), (2, 11, {"max_payload_bytes": 10})),
)
def test_lengths_beyond_the_limits_are_rejected(fields_bytes, payload_bytes, limit):
    with pytest.raises(NetworkError, match=f"Received: {fields_bytes} and {payload_bytes}."):
        decode_header(struct.pack("<4sIQ", b"SWR1", fields_bytes, payload_bytes), **limit)
