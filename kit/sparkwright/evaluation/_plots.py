"""What all plots of evaluations share."""

from typing import Any

from sparkwright.errors import ConfigurationError

# Okabe and Ito's colours, which colour-blind readers can tell apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")


def new_axes(*, width: float = 5.0, height: float = 4.2) -> Any:
    """The axes of a new figure, which a notebook shows at the end of the cell.

    Args:
        width: of the figure, in inches.
        height: likewise.

    Raises:
        ConfigurationError: if matplotlib is not installed.
    """
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ConfigurationError(
            "plots need matplotlib. Received: a Python without it. "
            'Install it: `pip install "sparkwright[notebook]"`.'
        ) from None
    _, axes = plt.subplots(figsize=(width, height), layout="constrained")
    return axes


def finish(axes: Any, *, title: str, x: str, y: str, legend: bool = False) -> Any:
    """Name axes and title, take away what is not needed, and return the axes."""
    axes.set(title=title, xlabel=x, ylabel=y)
    axes.spines[["top", "right"]].set_visible(False)
    if legend:
        axes.legend(frameon=False, fontsize="small")
    return axes
