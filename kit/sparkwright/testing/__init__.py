"""Stand-ins for networks, for tests; nothing outside of tests imports them."""

from ._socket_pair import socket_pair as socket_pair
