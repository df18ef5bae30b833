"""The constants of training on n workers, and how many minibatches share a message; pure.

`sparkwright.advice` predicts with them.
"""

from dataclasses import replace
from math import ceil
from typing import Self

from sparkwright.configuration import Configuration, configuration, option

# Default duration of a piece of work: a request for the next one takes a millisecond.
PIECE_S = 0.1
# Minibatches share a message so that messages cost at most a fifth of training, unless an option
# sets their number. More of them would increase staleness.
_MESSAGE_SHARE, _MOST_GATHERED = 0.2, 5


# Measured on two shared cores over loopback, which moves 2.5 GB/s: an averaging between two workers
# takes 1.9 ms for 1.7 MB, 6.3 ms for 5.2 MB and 109 ms for 100 MB. The rest of the time is
# proportional to the vector: reading variables, adding, writing them back.
@configuration
class ScalingCosts(Configuration):
    """Constants of the cost of training on several workers."""

    bandwidth_bytes_per_s: float = option(
        default=1.25e9,
        above=0,
        help="Network bandwidth of a machine; the default is 10 Gbit/s.",
    )
    latency_s: float = option(
        default=1e-4,
        above=0,
        help="Latency of a message to a neighbor in a ring: half a usual round trip within a "
        "data center.",
    )
    averaging_s_per_byte: float = option(
        default=0.75e-9, above=0, help="Reading, adding and writing back a vector."
    )
    bfloat16_s_per_byte: float = option(
        default=0.9e-9,
        above=0,
        help="Rounding to bfloat16 and adding rounded vectors of others, per byte in float32; 25 "
        "million numbers take 73 to 110 ms.",
    )
    int8_s_per_byte: float = option(
        default=1.1e-9, above=0, help="The same for 8-bit integers: 100 to 125 ms."
    )
    outer_s_per_byte: float = option(
        default=0.5e-9, above=0, help="A step of an outer optimizer; 51 ms for 100 MB."
    )
    message_s: float = option(
        default=1e-3,
        above=0,
        help="A message of gradient sharing, whatever its size. Encoding, sending and applying "
        "updates of LeNet (1.7 MB) takes 3 to 4 ms.",
    )
    message_s_per_byte: float = option(
        default=0.7e-9,
        above=0,
        help="Adding to the residual, selecting the values to send and applying them; 100 MB "
        "take 66 ms of a core.",
    )
    update_s: float = option(
        default=2e-4,
        above=0,
        help="Applying another worker's update and forwarding it. With the next option, this is "
        "0.4 to 0.6 ms for 21 KB, measured with 1 to 8 workers.",
    )
    update_s_per_byte: float = option(
        default=2e-8, above=0, help="The same, per byte of the update."
    )
    event_s: float = option(
        default=1.6e-4,
        above=0,
        help="Cost of a worker's message on the driver; measured with 1,000 simulated workers.",
    )
    relay_s_per_byte: float = option(
        default=3.5e-10,
        above=0,
        help='Cost of a byte on the driver with `communication="driver"`; measured over loopback.',
    )
    piece_s_per_worker: float = option(
        default=7.5e-7,
        above=0,
        help="Additional cost of a piece of work on the driver, per worker.",
    )
    jitter: float = option(
        default=0.0,
        minimum=0,
        below=1,
        help="Relative standard deviation of the time of a minibatch. Averaging waits for the "
        "slowest worker.",
    )
    cores: int | None = option(
        default=None,
        minimum=1,
        none_text="each worker has its own",
        help="Processor cores shared by all workers. With more workers than cores, workers wait "
        "for each other in training and in exchanges.",
    )
    processor_share: float = option(
        default=1.0,
        minimum=0,
        maximum=1,
        help="With `cores`: fraction of a minibatch that needs a core.",
    )

    def with_network(
        self, bandwidth_bytes_per_s: float | None = None, latency_s: float | None = None
    ) -> Self:
        """Return the same constants for another network; None: unchanged."""
        given = {"bandwidth_bytes_per_s": bandwidth_bytes_per_s, "latency_s": latency_s}
        return replace(self, **{name: value for name, value in given.items() if value is not None})


def gathered(step_s: float, message_s: float, max_staleness: int | None) -> int:
    """Return how many minibatches share a message; workers and predictions use the same rule.

    Example:
        >>> [gathered(step_s, 0.004, None) for step_s in (0.001, 0.01, 0.1)]
        [5, 2, 1]
    """
    most = _MOST_GATHERED if max_staleness is None else min(_MOST_GATHERED, max_staleness)
    return max(1, min(most, ceil(message_s / (_MESSAGE_SHARE * step_s))))
