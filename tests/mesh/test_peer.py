import contextlib
import json

import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import NetworkError
from sparkwright.mesh._messages import (
    TooFarBehind,
    Update,
    UpdateLog,
    Versions,
    fields_of,
    from_frame,
)
from sparkwright.mesh._peer import CatchUp, Deliver, Drop, Peer, Send
from sparkwright.mesh.framing import HEADER, Message, decode_fields, encode_head

A, B, C, D = (0, 0), (1, 0), (2, 0), (3, 0)


def update(origin, sequence, size=1):
    return Update(origin, sequence, bytes(size))


def delivered(actions):
    return [action.update[:2] for action in actions if isinstance(action, Deliver)]


def sent(actions, kind):
    return [a.message for a in actions if isinstance(a, Send) and isinstance(a.message, kind)]


def with_neighbors(*neighbors, **options):
    peer = Peer(A, **options)
    for neighbor in neighbors:
        peer.neighbor_up(neighbor)
    return peer


def test_an_update_is_delivered_and_passed_on_but_not_back_nor_to_its_origin():
    peer = with_neighbors(B, C, D)
    new = update(C, 1)
    assert peer.received(B, new) == [Deliver(new), Send([D], new)]


def test_no_more_than_some_updates_wait_for_their_turn():
    peer = with_neighbors(B, max_log_messages=2)
    for sequence in (4, 3, 2):
        peer.received(B, update(D, sequence))
    assert delivered(peer.received(B, update(D, 1))) == [(D, 1)]
    peer = with_neighbors(B, max_log_bytes=10)
    for sequence in (3, 2):
        peer.received(B, update(D, sequence, size=6))
    assert delivered(peer.received(B, update(D, 1))) == [(D, 1)]


def test_messages_of_non_neighbors_are_ignored():
    peer = with_neighbors(B)
    peer.neighbor_down(B)
    for message in (update(B, 1), Versions(1, 0, {}), TooFarBehind({B: 3}, {})):
        assert peer.received(B, message) == []
    peer.received_from(B)
    assert not peer._links


def test_only_a_worker_publishes_under_its_name():
    peer = with_neighbors(B)
    assert peer.received(B, update(A, 1)) == []
    peer.published(b"mine")
    assert peer.versions == {A: 1}


def test_updates_in_transit_are_not_resent():
    peer = with_neighbors(B)
    peer.timer_fired(0.0)
    peer.published(b"")
    assert peer.received(B, Versions(1, 0, {})) == []
    (beat,) = sent(peer.timer_fired(1.0), Versions)
    peer.published(b"")
    # B answers what came before that update, and before the heartbeat.
    assert peer.received(B, Versions(2, beat.tick - 1, {})) == []


def test_lost_updates_are_resent_once_then_after_two_heartbeats():
    peer = with_neighbors(B)
    peer.timer_fired(0.0)
    peer.published(b"")  # lost
    repairs = 0
    for second in range(1, 7):
        (beat,) = sent(peer.timer_fired(float(second)), Versions)
        found = sent(peer.received(B, Versions(second, beat.tick, {})), Update)
        again = sent(peer.received(B, Versions(second, beat.tick, {})), Update)
        assert not again, "one repair a heartbeat at most"
        repairs += len(found)
    assert 2 <= repairs <= 5


def test_versions_that_were_overtaken_are_not_believed():
    peer = with_neighbors(B)
    peer.published(b"")
    peer.neighbor_up(C)
    assert peer.received(C, Versions(5, 0, {A: 1})) == []
    assert peer.received(C, Versions(4, 0, {})) == []


def test_only_silent_neighbors_are_dropped():
    peer = with_neighbors(B, C, D, timeout_s=3.0)
    dropped = []
    for second in range(5):
        peer.received_from(C)
        peer.received(D, Versions(second + 1, 0, {}))
        dropped += [a for a in peer.timer_fired(100.0 + second) if isinstance(a, Drop)]
    assert dropped == [Drop(B)]
    assert [*peer._links] == [C, D]


def test_a_neighbor_that_comes_late_is_given_as_much_time():
    peer = with_neighbors(timeout_s=3.0)
    peer.timer_fired(0.0)
    peer.timer_fired(10.0)
    peer.neighbor_up(B)
    assert Drop(B) not in peer.timer_fired(12.0)
    assert Drop(B) not in peer.timer_fired(14.0)
    assert Drop(B) in peer.timer_fired(15.0)


def test_catch_up_is_requested_once_until_restored_or_timed_out():
    peer = with_neighbors(B, timeout_s=3.0)
    word = TooFarBehind({B: 5}, {B: 6})
    peer.timer_fired(0.0)
    assert peer.received(B, word) == [CatchUp(B)]
    assert peer.received(B, word) == []
    for second in (1.0, 2.0, 3.0):
        peer.received_from(B)
        peer.timer_fired(second)
    assert peer.received(B, word) == [CatchUp(B)]
    peer.restored({B: 6})
    assert peer.received(B, word) == []
    assert peer.received(B, TooFarBehind({B: 9}, {B: 9})) == [CatchUp(B)]


def test_of_two_incomplete_peers_only_the_lower_state_is_replaced():
    def one(me, own):
        peer = Peer(me, max_log_messages=1)
        for _ in range(own):
            peer.published(b"")
        return peer

    left, right = one(A, 4), one(B, 3)
    for peer, other in ((left, B), (right, A)):
        peer.neighbor_up(other)
    to_right = sent(left.received(B, Versions(1, 0, right.versions)), TooFarBehind)
    to_left = sent(right.received(A, Versions(1, 0, left.versions)), TooFarBehind)
    assert left.received(B, to_left[0]) == []
    assert right.received(A, to_right[0]) == [CatchUp(A)]


def test_a_restored_state_makes_newer_updates_come_again_own_ones_too():
    peer = with_neighbors(B)
    for sequence in (1, 2, 3):
        peer.received(B, update(B, sequence))
        peer.published(b"")
    actions = peer.restored({A: 2, B: 1, C: 7})
    assert sorted(delivered(actions)) == [(A, 3), (B, 2), (B, 3)]
    assert peer.versions == {A: 3, B: 3, C: 7}
    assert peer.published(b"")[0].message.sequence == 4
    assert peer.received(B, update(C, 7)) == []
    assert delivered(peer.received(B, update(C, 8))) == [(C, 8)]


def test_own_updates_missing_everywhere_are_dropped_after_a_restore():
    peer = with_neighbors(B, max_log_messages=2)
    for _ in range(5):
        peer.published(b"")
    assert delivered(peer.restored({A: 1})) == [(A, 4), (A, 5)]
    assert peer.versions == {A: 5}
    (word,) = sent(peer.received(B, Versions(1, 0, {A: 2})), TooFarBehind)
    assert word.floors == {A: 3}


@given(
    sizes=st.lists(st.integers(0, 20), max_size=30),
    most=st.integers(1, 10),
    most_bytes=st.integers(1, 60),
)
def test_the_log_keeps_the_newest_within_its_bounds(sizes, most, most_bytes):
    log = UpdateLog(max_messages=most, max_bytes=most_bytes)
    for sequence, size in enumerate(sizes, 1):
        log.append(update(A, sequence, size))
    kept = [found.sequence for found in log._updates]
    assert kept == list(range(len(sizes) - len(kept) + 1, len(sizes) + 1))
    assert len(kept) <= most
    assert log.size_bytes == sum(sizes[number - 1] for number in kept) <= most_bytes
    one_more = len(sizes) - len(kept)
    assert not one_more or len(kept) == most or log.size_bytes + sizes[one_more - 1] > most_bytes
    _, floors = log.missing({}, {A: len(sizes)})
    assert floors == ({A: one_more} if one_more else {})


# -- on the wire ----------------------------------------------------------------------------

NUMBERS = st.integers(0, 2**40)
VECTORS = st.dictionaries(st.tuples(NUMBERS, NUMBERS), NUMBERS, max_size=5)
MESSAGES = st.one_of(
    st.builds(Update, st.tuples(NUMBERS, NUMBERS), st.integers(1, 2**40), st.binary(max_size=9)),
    st.builds(Versions, st.integers(1, 2**40), NUMBERS, VECTORS),
    st.builds(TooFarBehind, VECTORS, VECTORS),
)


@given(MESSAGES)
def test_message_arrives_unchanged(message):
    payload = message.payload if isinstance(message, Update) else b""
    head = encode_head(*fields_of(message), len(payload))
    kind, fields = decode_fields(head[HEADER.size :])
    found = from_frame(Message(kind=kind, fields=fields, payload=payload))
    assert type(found) is type(message)
    assert found == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
FIELDS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(["origin", "sequence", "tick", "echo", "vector", "floors"], JSON)
)


@given(kind=st.sampled_from(["update", "versions", "behind", "", "x" * 99]), fields=FIELDS)
def test_whatever_is_sent_is_a_message_or_rejected(kind, fields):
    fields = json.loads(json.dumps(fields))
    with contextlib.suppress(NetworkError):
        assert fields_of(from_frame(Message(kind=kind, fields=fields)))[0] == kind


@pytest.mark.parametrize("number", [True, -1, 1.0, "1", None, [1]])
def test_numbers_are_whole_and_not_negative(number):
    with pytest.raises(NetworkError):
        from_frame(Message(kind="update", fields={"origin": [number, 0], "sequence": 1}))
    with pytest.raises(NetworkError):
        from_frame(Message(kind="behind", fields={"floors": [[1, 1, number]], "vector": []}))
