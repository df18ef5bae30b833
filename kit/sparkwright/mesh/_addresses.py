"""Which of this machine's addresses lies in a given network."""

import ipaddress
import socket

from sparkwright.errors import ConfigurationError


def address_in(network_mask: str) -> str:
    """This machine's IPv4 address within a network.

    Raises:
        ConfigurationError: if there is none; lists those that there are.
    """
    import psutil

    network = ipaddress.ip_network(network_mask, strict=False)
    found = [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET
    ]
    inside = [a for a in found if ipaddress.ip_address(a) in network]
    if not inside:
        raise ConfigurationError(
            "`network_mask` must contain an address of this machine. Received: "
            f"network_mask={network_mask!r}; this machine has {sorted(found)}."
        )
    return inside[0]
