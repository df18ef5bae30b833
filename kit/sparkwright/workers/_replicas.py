"""Makes replicas on Keras' backend of this process."""

from sparkwright.networks import ModelDefinition
from sparkwright.networks.backend import backend_name

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
        from ._jax_replica import JaxReplica

        return JaxReplica(definition)
    from ._replica import TensorFlowReplica

    return TensorFlowReplica(definition, xla=xla)
