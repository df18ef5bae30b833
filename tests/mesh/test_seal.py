import hypothesis.strategies as st
import pytest
from hypothesis import assume, given
from tests.cases import cases

from sparkwright.errors import NetworkError
from sparkwright.mesh._seal import pieces, seals
from sparkwright.mesh.auth import Handshake

NONCES = b"c" * 32, b"s" * 32
CONTENTS = st.lists(st.binary(max_size=50), min_size=1, max_size=6)


def keys_of(role, *, encrypt=False, identity="driver"):
    return Handshake(b"k" * 32, identity, *NONCES, encrypt).keys(role)


def sealed(contents, *, encrypt):
    """(piece, tag) of each, as the client sends them."""
    sealer, _ = seals(keys_of("client", encrypt=encrypt))
    return [(bytes(piece), bytes(tag)) for piece, tag in map(sealer.seal, contents)]


def opened(wire, *, encrypt):
    """What the server makes of them."""
    _, opener = seals(keys_of("server", encrypt=encrypt))
    found = []
    for piece, tag in wire:
        content = bytearray(piece)
        opener.open(memoryview(content), tag)
        found.append(bytes(content))
    return found


@given(contents=CONTENTS, encrypt=st.booleans())
def test_pieces_arrive_as_they_were(contents, encrypt):
    wire = sealed(contents, encrypt=encrypt)
    assert opened(wire, encrypt=encrypt) == contents
    for (piece, _), content in zip(wire, contents, strict=True):
        assert (piece == content) == (not encrypt) or len(content) < 4


@given(contents=CONTENTS, encrypt=st.booleans(), data=st.data())
def test_another_sequence_of_pieces_is_rejected(contents, encrypt, data):
    """Pieces repeated, left out and moved: all that comes before the first wrong one is right."""
    wire = sealed(contents, encrypt=encrypt)
    order = data.draw(st.lists(st.sampled_from(range(len(wire))), min_size=1, max_size=8))
    assume(order != list(range(len(wire)))[: len(order)])
    with pytest.raises(NetworkError, match="each message must carry the peer's authentication"):
        opened([wire[place] for place in order], encrypt=encrypt)


@given(content=st.binary(min_size=1, max_size=50), encrypt=st.booleans(), data=st.data())
def test_a_changed_bit_is_rejected(content, encrypt, data):
    ((piece, tag),) = sealed([content], encrypt=encrypt)
    whole = bytearray(piece + tag)
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    whole[bit // 8] ^= 1 << bit % 8
    with pytest.raises(NetworkError):
        opened([(bytes(whole[:-16]), bytes(whole[-16:]))], encrypt=encrypt)


@cases("encrypt", False, True)
def test_a_piece_sent_back_to_its_sender_is_rejected(encrypt):
    sealer, opener = seals(keys_of("client", encrypt=encrypt))
    piece, tag = sealer.seal(b"abc")
    with pytest.raises(NetworkError):
        opener.open(memoryview(bytearray(piece)), tag)


@cases(
    "other",
    Handshake(b"K" * 32, "driver", *NONCES),
    Handshake(b"k" * 32, "worker 1", *NONCES),
    Handshake(b"k" * 32, "driver", b"C" * 32, NONCES[1]),
    Handshake(b"k" * 32, "driver", NONCES[0], b"S" * 32),
    Handshake(b"k" * 32, "driver", *NONCES, True),
    ids=["secret", "identity", "client nonce", "server nonce", "encryption"],
)
def test_keys_and_proofs_depend_on_all_of_the_handshake(other):
    mine = Handshake(b"k" * 32, "driver", *NONCES)
    values = [
        *mine.keys("client")[:2],
        *other.keys("client")[:2],
        *(each.proof(role) for each in (mine, other) for role in ("client", "server")),
    ]
    assert len(set(values)) == len(values)


@given(views=st.lists(st.binary(max_size=20)), size=st.integers(1, 15))
def test_pieces_are_cut_at_the_same_places_however_the_payload_is_divided(views, size):
    whole = b"".join(views)
    expected = [whole[start : start + size] for start in range(0, len(whole), size)]
    assert [bytes(piece) for piece in pieces(views, size)] == expected
