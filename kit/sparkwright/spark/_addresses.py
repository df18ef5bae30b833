"""On which addresses driver and workers listen."""

import socket
from typing import TYPE_CHECKING

from sparkwright.masters import MeshConfig
from sparkwright.mesh._addresses import address_in

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
    """Where workers listen: an address, a network to choose theirs from, or empty.

    Empty stands for the address that leads to the driver.
    """
    if mesh.network_mask is not None:
        return mesh.network_mask
    return _LOOPBACK if is_local(spark) else ""
