"""What it costs workers to exchange what they have learnt: a model of seconds and bytes; pure."""

from dataclasses import dataclass, fields

from sparkwright.options import check_seconds

from ._gathered import gathered
from ._mesh_config import MeshConfig
from ._parameter_averaging import ParameterAveragingTrainingMaster
from ._plan import TrainingPlan
from ._shared_training import SharedTrainingMaster
from ._training_master import TrainingMaster

TEN_GIGABIT_BYTES_PER_S = 1.25e9
# Measured on two shared cores over loopback, which moves 2.5 GB/s: an averaging between two workers
# takes 1.9 ms for 1.7 MB, 6.3 ms for 5.2 MB and 109 ms for 100 MB. What the wire does not explain
# goes in proportion to the vector: reading the variables, adding, writing them back.
LOOPBACK_BYTES_PER_S = 2.5e9
AVERAGING_S_PER_BYTE = 0.75e-9
# A ring waits for a neighbour 2 (n - 1) times. Half a usual round trip between machines of one
# room; not measured.
RING_STEP_S = 1e-4
# An averaging by way of a Spark job: 200 to 500 ms with a broadcast of 4 MB.
SPARK_AVERAGING_S = 0.35
# Encoding, sending and taking over updates of LeNet (1.7 MB) takes 3 to 4 ms a message; encoding
# 100 MB takes 50 ms.
MESSAGE_S = 2.5e-3
MESSAGE_S_PER_BYTE = 0.5e-9


@dataclass(frozen=True, kw_only=True, slots=True)
class ExchangeCosts:
    """Constants of the model, each of them greater than 0.

    Attributes:
        bandwidth_bytes_per_s: what a machine can send; default 1.25e9, that is 10 Gbit/s.
        latency_s: until a neighbour's answer in a ring has come; default 0.1 ms.
        averaging_s_per_byte: reading, adding and writing back a vector; default 0.75 ns.
        message_s: a message of gradient sharing, whatever it holds; default 2.5 ms.
        message_s_per_byte: looking through a vector for what is to be sent; default 0.5 ns.
    """

    bandwidth_bytes_per_s: float = TEN_GIGABIT_BYTES_PER_S
    latency_s: float = RING_STEP_S
    averaging_s_per_byte: float = AVERAGING_S_PER_BYTE
    message_s: float = MESSAGE_S
    message_s_per_byte: float = MESSAGE_S_PER_BYTE

    def __post_init__(self) -> None:
        """Refuse what is not greater than 0.

        Raises:
            ConfigurationError: naming the constant.
        """
        for field in fields(self):
            check_seconds(field.name, getattr(self, field.name))


def minibatches_per_exchange(master: TrainingMaster, step_s: float | None) -> int:
    """Minibatches of a worker between two averagings or messages.

    Args:
        master: how to train.
        step_s: seconds of one minibatch; None: unknown.
    """
    if isinstance(master, ParameterAveragingTrainingMaster):
        return master.averaging_frequency
    if not isinstance(master, SharedTrainingMaster):
        return 1
    if master.minibatches_per_message is not None:
        found = master.minibatches_per_message
    else:
        found = 1 if step_s is None else gathered(step_s, master.max_staleness)
    # A message never holds minibatches of two pieces.
    return found if master.piece_minibatches is None else min(found, master.piece_minibatches)


def exchange(
    master: TrainingMaster, plan: TrainingPlan, vector_bytes: int, costs: ExchangeCosts
) -> tuple[int, float]:
    """Bytes that a worker sends in an exchange, and the seconds that it takes.

    A ring of n workers sends 2 (n - 1) / n vectors in 2 (n - 1) steps. A message of gradient
    sharing reaches all others along a tree; counted is the worker that passes on most.
    """
    others = plan.workers - 1
    if others == 0:
        return 0, 0.0
    bandwidth = costs.bandwidth_bytes_per_s
    if plan.kind == "sharing":
        size = plan.bytes_per_minibatch
        handling_s = costs.message_s + costs.message_s_per_byte * vector_bytes
        return others * size, handling_s + _relayed(master.mesh, others, size) / bandwidth
    if getattr(master, "communication", "ring") == "spark":
        return vector_bytes, SPARK_AVERAGING_S + 2 * vector_bytes / bandwidth
    sent = plan.bytes_per_round
    handling_s = costs.averaging_s_per_byte * vector_bytes + 2 * others * costs.latency_s
    return sent, handling_s + sent / bandwidth


def _relayed(mesh: MeshConfig, others: int, size_bytes: int) -> int:
    """Bytes that the busiest worker passes on when each has sent one update."""
    branches = others if mesh.mode == "plain" else min(others, mesh.max_downstreams + 1)
    return branches * others * size_bytes
