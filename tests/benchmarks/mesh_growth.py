"""How the mesh's traffic grows with the number of workers, without a network.

python -m tests.benchmarks.mesh_growth
"""

import random
import time
from collections.abc import Iterator

from tests.benchmarks._harness import Row, row, show
from tests.support.mesh import InMemoryMesh

SIZES = (8, 64, 512, 4096, 8192)
UPDATES = 100
PAYLOAD = bytes(1000)


def mesh_growth() -> Iterator[Row]:
    """Updates of random workers to all others: messages, bytes, depth and time per delivery."""
    for size in SIZES:
        mesh = InMemoryMesh()
        members = [(worker, 0) for worker in range(size)]
        for origin in members:
            mesh.start(origin)
        depth = mesh.reshape(members, "mesh").depth
        mesh.run()
        greetings = mesh.messages
        chance = random.Random(0)
        began_s = time.perf_counter()
        for _ in range(UPDATES):
            mesh.publish(chance.choice(members), PAYLOAD)
            mesh.run()
        spent_s = time.perf_counter() - began_s
        messages, deliveries = mesh.messages - greetings, UPDATES * (size - 1)
        before = mesh.messages
        mesh.tick(1.0)
        mesh.run()
        name = f"mesh of {size:,} workers"
        yield row(
            f"{name}: messages an update",
            *(messages / UPDATES, "messages", float(size - 1)),
            target="one a worker",
        )
        bytes_each = mesh.size_bytes / UPDATES / size
        yield row(f"{name}: bytes a worker and update", bytes_each, "bytes", float(len(PAYLOAD)))
        runs = {"heartbeat_messages": mesh.messages - before}
        yield row(f"{name}: depth", depth, "steps", target="<= 5", runs=runs)
        yield row(f"{name}: time a delivery, one process", 1e6 * spent_s / deliveries, "us")


if __name__ == "__main__":
    show(mesh_growth())
