"""Stand-ins for networks, for tests; nothing outside of tests imports them."""

from ._in_memory_mesh import InMemoryMesh as InMemoryMesh
from ._socket_pair import socket_pair as socket_pair
