"""How the mesh's traffic grows with the number of workers, without a network.

python tests/benchmarks/mesh_growth.py
"""

import random
import time
from collections.abc import Iterator
from typing import Any

from tests.support.mesh import InMemoryMesh

Row = dict[str, Any]
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
        yield {
            "what": f"{name}: messages an update",
            "value": messages / UPDATES,
            "unit": "messages",
            "baseline": float(size - 1),
            "ratio": messages / deliveries,
            "target": "one a worker",
        }
        yield {
            "what": f"{name}: bytes a worker and update",
            "value": mesh.size_bytes / UPDATES / size,
            "unit": "bytes",
            "baseline": float(len(PAYLOAD)),
            "ratio": mesh.size_bytes / UPDATES / size / len(PAYLOAD),
        }
        yield {
            "what": f"{name}: depth",
            "value": depth,
            "unit": "steps",
            "target": "<= 5",
            "runs": {"heartbeat_messages": mesh.messages - before},
        }
        yield {
            "what": f"{name}: time a delivery, one process",
            "value": 1e6 * spent_s / deliveries,
            "unit": "us",
        }


if __name__ == "__main__":
    for row in mesh_growth():
        print(f"{row['what']:<52} {row['value']:>12,.2f} {row['unit']:<9} {row.get('target', '')}")
