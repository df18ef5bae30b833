"""Quantities of the chart besides the loss: columns of the log, and how each is drawn. Pure.

Quantity 0 is the loss, whose lines have the numbers of their workers. The lines of quantity n begin
at n * LINES_APART. All numbers are exact as float32.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

LINES_APART = 65536

# The last line of a quantity is that of the validation data.
VALIDATION_PLACE = LINES_APART - 1

# Offset of validation lines when several runs are compared.
VALIDATION_APART = LINES_APART // 2

MOST_METRICS = 64  # keeps line numbers exact as float32


@dataclass(frozen=True, kw_only=True, slots=True)
class Band:
    """The range of values that a quantity usually has when training goes well."""

    low: float
    target: float
    high: float
    label: str  # the text in the band


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """A column of the log that is drawn as lines."""

    column: str
    label: str  # with the unit
    factor: float = 1.0  # from the column's unit to the label's
    takes: Literal["mean", "last"] = "mean"  # of the values in a time interval
    log: bool = False  # whether its axis is always logarithmic
    band: Band | None = None
    note: str = ""  # a sentence or two for readers


LOSS = Quantity(column="loss", label="loss")

QUANTITIES = (
    Quantity(column="learning_rate", label="learning rate", takes="last"),
    Quantity(
        column="update_ratio",
        label="update to parameters (ratio)",
        log=True,
        band=Band(low=1e-4, target=1e-3, high=1e-2, label="usually healthy"),
        note="Norm of a minibatch's update over the norm of the parameters. Rule of thumb: about "
        "0.001, between 0.0001 and 0.01. Far above, lower the learning rate; far below, raise it. "
        "Source: notes of Stanford's course CS231n.",
    ),
    Quantity(column="examples_per_s", label="throughput (examples/s)"),
    Quantity(column="threshold", label="threshold"),
    Quantity(column="sparsity", label="sparsity (%)", factor=100.0),
    Quantity(column="message_bytes", label="sent for a minibatch (KiB)", factor=1 / 1024),
    Quantity(column="staleness", label="staleness (minibatches)"),
    Quantity(column="residual_p99", label="residual, 99th percentile"),
    Quantity(
        column="processor",
        label="processor (% of its cores)",
        factor=100.0,
        note="CPU use of each worker's process, as a percentage of its cores, about every 2 s. "
        "Low values mean that the worker waits for data or for slower workers.",
    ),
    Quantity(
        column="memory_bytes",
        label="memory (MiB)",
        factor=1 / 2**20,
        takes="last",
        note="Resident memory of each worker's process, including memory-mapped pages of its data "
        "files.",
    ),
    Quantity(column="gpu", label="GPU (% of the time)", factor=100.0),
    Quantity(column="gpu_memory_bytes", label="GPU memory (MiB)", factor=1 / 2**20, takes="last"),
)

# Columns that locate a row, or that are not worth a line.
_NO_QUANTITIES = frozenset(
    (
        *("worker", "epoch", "round", "step", "loss", "examples", "time_s"),
        *("residual_p50", "residual_max"),
    )
)


# All columns but those of compiled metrics.
LOGGED = _NO_QUANTITIES | {"examples_per_s", *(quantity.column for quantity in QUANTITIES)}


class QuantityNumbers:
    """Assigns numbers to columns: fixed ones to known columns, the next free ones to metrics.

    Example:
        >>> numbers = QuantityNumbers()
        >>> numbers.of("learning_rate"), numbers.of("accuracy"), numbers.of("step")
        (1, 13, None)
        >>> [quantity.label for _, quantity in numbers.listed({0, 1, 13})]
        ['loss', 'accuracy', 'learning rate']
    """

    def __init__(self) -> None:
        self._quantities: list[Quantity] = [LOSS, *QUANTITIES]
        self._numbers = {quantity.column: n for n, quantity in enumerate(self._quantities)}

    def of(self, column: str) -> int | None:
        """Return the number of a column; None if it is no quantity or exceeds MOST_METRICS."""
        if column in _NO_QUANTITIES:
            return None
        if column not in self._numbers:
            if len(self._quantities) > len(QUANTITIES) + MOST_METRICS:
                return None
            self._numbers[column] = len(self._quantities)
            self._quantities.append(Quantity(column=column, label=column, takes="last"))
        return self._numbers[column]

    def __getitem__(self, number: int) -> Quantity:
        return self._quantities[number]

    def listed(self, numbers: Iterable[int]) -> list[tuple[int, Quantity]]:
        """Return `numbers` and their quantities in display order: loss, metrics, others."""
        first = len(QUANTITIES) + 1
        order = sorted(set(numbers), key=lambda n: (0 if n == 0 else 1 if n >= first else 2, n))
        return [(number, self._quantities[number]) for number in order]
