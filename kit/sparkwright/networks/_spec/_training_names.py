"""The names that Keras accepts for losses and metrics, and those of them that are used here."""

from collections.abc import Mapping
from types import MappingProxyType

from ._losses import LOSSES, LossKind
from ._metrics import METRICS, MetricKind

# Other names that Keras accepts for the same.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "acc": "accuracy",
        "mse": "mean_squared_error",
        "mae": "mean_absolute_error",
        "mape": "mean_absolute_percentage_error",  # codespell:ignore mape
        "msle": "mean_squared_logarithmic_error",
        "bce": "binary_crossentropy",
        "kld": "kl_divergence",
        "logcosh": "log_cosh",
        "huber_loss": "huber",
    }
)


def loss_kind(name: str) -> LossKind | None:
    """The loss of that name or alias, in any case; None: it is not known here.

    Example:
        >>> loss_kind("mse").name
        'mean_squared_error'
    """
    return LOSSES.get(plain_name(name))


def metric_kind(name: str) -> MetricKind | None:
    """The metric of that name or alias, in any case; None: it is not known here."""
    return METRICS.get(plain_name(name))


def plain_name(name: str) -> str:
    """The name without aliases and capitals.

    Example:
        >>> plain_name("MAE"), plain_name("AUC"), plain_name("MeanSquaredError")
        ('mean_absolute_error', 'auc', 'mean_squared_error')
    """
    lowered = name.lower()
    if lowered in ALIASES:
        return ALIASES[lowered]
    if lowered in LOSSES or lowered in METRICS:
        return lowered
    squeezed = {known.replace("_", ""): known for known in (*LOSSES, *METRICS)}
    return squeezed.get(lowered, lowered)
