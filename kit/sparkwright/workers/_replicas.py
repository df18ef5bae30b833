"""Create replicas on this process' Keras backend."""

from sparkwright.networks import ModelDefinition
from sparkwright.networks.backend import backend_name

from ._jax_replica import JaxReplica
from ._replica import TensorFlowReplica
from ._replica_base import Replica, XlaChoice


def make_replica(definition: ModelDefinition, *, xla: XlaChoice = "auto") -> Replica:
    """Build a replica of a network."""
    if backend_name() == "jax":
        return JaxReplica(definition)
    return TensorFlowReplica(definition, xla=xla)
