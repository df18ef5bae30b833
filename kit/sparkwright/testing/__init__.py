"""Stand-ins for networks and a real HDFS, for tests and for trying things."""

from ._hdfs import HdfsCluster as HdfsCluster
from ._in_memory_mesh import InMemoryMesh as InMemoryMesh
from ._socket_pair import socket_pair as socket_pair
