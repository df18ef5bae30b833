"""On which addresses driver and workers listen."""

import ipaddress
import socket
from typing import TYPE_CHECKING

from sparkwright.errors import ConfigurationError
from sparkwright.masters import MeshConfig

from ._slots import is_local

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"


def bind_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """The driver's address to listen on.

    Raises:
        ConfigurationError: if this machine has no address in `network_mask`.
    """
    if mesh.network_mask is not None:
        return address_in(mesh.network_mask)
    if is_local(spark):
        return _LOOPBACK
    return socket.gethostbyname(
        spark.sparkContext.getConf().get("spark.driver.host") or socket.gethostname()
    )


def advertised_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """The driver's address as workers are told."""
    return mesh.controller_address or bind_address(spark, mesh)


def worker_address(spark: "SparkSession", mesh: MeshConfig) -> str:
    """The address for workers to listen on; empty: the one that leads to the driver."""
    return _LOOPBACK if is_local(spark) and mesh.network_mask is None else ""


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
