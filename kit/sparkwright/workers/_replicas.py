"""Create replicas on this process' Keras backend."""

from sparkwright.networks import ModelDefinition
from sparkwright.networks.backend import backend_name

from ._jax_replica import JaxReplica
from ._replica import TensorFlowReplica
from ._replica_base import Replica, XlaChoice


def make_replica(definition: ModelDefinition, *, xla: XlaChoice = "auto") -> Replica:
    """Build a replica of a network.

    Args:
        definition: the network.
        xla: as in the master; default "auto". JAX always compiles with XLA.

    Raises:
        Any exception of a user's layer while it is built.
    """
    if backend_name() == "jax":
        return JaxReplica(definition)
    return TensorFlowReplica(definition, xla=xla)
