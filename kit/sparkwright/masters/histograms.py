"""Options of the histograms that a run records during training."""

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError

KINDS = ("weights", "updates", "activations")


@configuration
class Histograms(Configuration):
    """Histograms that one worker records between its minibatches, and their frequency.

    Training pauses while histograms are recorded; its result is bit-identical to that without them.
    `run.histograms.cost_s` is the total time spent on histograms.

    Example:
        >>> Histograms(every=500, of=("weights", "activations"), layers=("dense",)).bins
        64
    """

    every: int | None = option(
        default=100,
        minimum=1,
        none_text="only on request",
        unit="minibatches",
        help="Minibatches of the worker from one time to the next; the first time comes with the "
        "first averaging. At other times `run.request_histograms()` asks for them.",
    )
    of: tuple[str, ...] = option(
        default=("weights", "updates"),
        label="Of what",
        help='"weights": each trainable variable. "updates": what the last averaging changed in '
        "it; with gradient sharing, the worker's minibatches of one message. "
        '"activations": outputs of each layer in inference mode, for up to 64 of the worker\'s '
        "examples; they need a sequential or functional network and data in partitions.",
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
        help="Bins of each, from the least value to the greatest.",
    )

    def _check(self) -> None:
        for name in ("of", "layers"):  # settings hold lists
            if getattr(self, name) is not None:
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if not self.of or not set(self.of) <= set(KINDS):
            raise ConfigurationError(
                f"`of` must hold one or more of {', '.join(map(repr, KINDS))}. "
                f"Received: of={self.of!r}."
            )

    def takes(self, name: str) -> bool:
        """Whether to record a layer, or a variable named as "layer/variable"."""
        chosen = self.layers
        return chosen is None or any(name == each or name.startswith(f"{each}/") for each in chosen)


class HistogramSchedule:
    """Schedule of histograms: at intervals of minibatches, and immediately on request."""

    def __init__(self, every: int | None) -> None:
        self._every, self._last = every, -1

    def is_due(self, step: int, *, asked: bool) -> bool:
        """Whether to record after minibatch `step` (from 1); `asked`: a request is pending."""
        if asked or self._every is None:
            return asked
        # After a run is rewound, the last step may be larger than `step`.
        return self._last < 0 or step - self._last >= self._every or step < self._last

    def took(self, step: int) -> None:
        """Record that histograms were taken after minibatch `step`."""
        self._last = step
