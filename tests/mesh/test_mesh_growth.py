import gc
import random

import pytest
from tests.support.mesh import InMemoryMesh, depth

NODES, UPDATES = 8192, 100


@pytest.fixture
def without_collector():
    """Millions of tuples that live on make it search in vain."""
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("without_collector")
def test_8000_nodes_get_every_update_once_and_a_restarted_node_catches_up():
    counts = [bytearray(UPDATES) for _ in range(NODES)]
    calls = []

    def count(me, update):
        counts[me[0]][int.from_bytes(update.payload, "little")] += 1

    mesh = InMemoryMesh(on_deliver=count, on_catch_up=lambda *call: calls.append(call))
    members = [(worker, 0) for worker in range(NODES)]
    for origin in members:
        mesh.start(origin)
    tree = mesh.reshape(members, "mesh")
    assert depth(tree) == 5
    assert max(len(tree.downstreams(worker)) for worker in range(NODES)) == 8
    mesh.run()

    before, chance = mesh.messages, random.Random(0)
    sources = [chance.randrange(NODES) for _ in range(UPDATES)]
    for number, source in enumerate(sources):
        mesh.publish((source, 0), number.to_bytes(2, "little"))
        if number % 8 == 0:
            mesh.run()
    mesh.run()
    for worker in range(NODES):
        expected = bytes(source != worker for source in sources)
        assert counts[worker] == expected
    assert mesh.messages - before == UPDATES * (NODES - 1)

    # A relay starts again with nothing; its neighbors' logs still hold everything.
    mesh.stop((5, 0))
    counts[5] = bytearray(UPDATES)
    mesh.start((5, 1))
    members[5] = (5, 1)
    mesh.reshape(members, "mesh")
    mesh.run()
    assert counts[5] == b"\1" * UPDATES
    mesh.publish((5, 1), (0).to_bytes(2, "little"))
    mesh.run()
    assert all(mesh.peers[origin].versions[5, 1] == 1 for origin in members)
    assert not calls
