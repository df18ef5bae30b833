"""Stand-ins for networks, several hosts on one machine, and real clusters, for tests and trials."""

from ._fake_gpus import fake_gpus as fake_gpus
from ._hdfs import HdfsCluster as HdfsCluster
from ._hosts import Hosts as Hosts, Traffic as Traffic, why_no_hosts as why_no_hosts
from ._in_memory_mesh import InMemoryMesh as InMemoryMesh
from ._link import LinkRule as LinkRule
from ._socket_pair import socket_pair as socket_pair
from ._standalone import StandaloneCluster as StandaloneCluster
from ._yarn import YarnCluster as YarnCluster
