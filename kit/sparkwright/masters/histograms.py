"""Options of a network's histograms during training."""

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

KINDS = ("weights", "updates", "activations")


@configuration
class Histograms(Configuration):
    """Histograms that one worker selects between minibatches, and their interval.

    Training waits for them; its result is bit-identical to training without them.
    `run.histograms.cost_s` is their total time in seconds.

    Example:
        >>> Histograms(every=500, of=("weights", "activations"), layers=("dense",)).bins
        64
    """

    every: int | None = option(
        default=100,
        minimum=1,
        none_text="none: on request only",
        unit="minibatches",
        help="Minibatches between two histograms of a worker; the first come with the first "
        "averaging. `run.request_histograms()` requests them at any time.",
    )
    of: tuple[str, ...] = option(
        default=("weights", "updates"),
        label="Of what",
        help='"weights": each trainable variable. "updates": its change by the last averaging; '
        "with gradient sharing, by the worker's minibatches of one message. "
        '"activations": outputs of each layer in inference mode, for up to 64 of the '
        "worker's examples; they need a sequential or functional network and data in "
        "partitions.",
    )
    layers: tuple[str, ...] | None = option(
        default=None,
        none_text="all layers",
        help="Names of layers.",
    )
    bins: int = option(
        default=64,
        minimum=4,
        maximum=512,
        help="Bins per histogram, from the least to the greatest value.",
    )

    def _check(self) -> None:
        for name in ("of", "layers"):  # settings contain lists
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.of or not set(self.of) <= set(KINDS):
            raise ConfigurationError(
                f"`of` must contain one or more of {', '.join(map(repr, KINDS))}. Received: "
                f"of={self.of!r}."
            )

    def selects(self, name: str) -> bool:
        """Return whether `name`, a layer or "layer/variable", is selected."""
        chosen = self.layers
        return chosen is None or any(name == each or name.startswith(f"{each}/") for each in chosen)


class HistogramSchedule:
    """Schedule of histograms: at intervals of minibatches, and on request."""

    def __init__(self, every: int | None) -> None:
        self._every, self._last = every, -1

    def is_due(self, step: int, *, asked: bool) -> bool:
        """Return whether histograms are due after minibatch `step`, from 1; `asked`: on request."""
        if asked or self._every is None:
            return asked
        # A rewound run has already reached later minibatches.
        return self._last < 0 or step - self._last >= self._every or step < self._last

    def record(self, step: int) -> None:
        """Record histograms taken after minibatch `step`."""
        self._last = step
