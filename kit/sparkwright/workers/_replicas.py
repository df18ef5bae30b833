"""Makes replicas on Keras' backend of this process."""

from sparkwright.networks import ModelDefinition
from sparkwright.networks.backend import backend_name

from ._jax_replica import JaxReplica
from ._replica import TensorFlowReplica
from ._replica_base import Replica, XlaChoice


def make_replica(definition: ModelDefinition, *, xla: XlaChoice = "auto") -> Replica:
    """Build a replica of the network that `definition` describes.

    Args:
        definition: the network.
        xla: as the master's; default "auto". JAX always compiles with XLA.

    Raises:
        Whatever a user's layer raises while it is built.
    """
    if backend_name() == "jax":
        return JaxReplica(definition)
    return TensorFlowReplica(definition, xla=xla)
