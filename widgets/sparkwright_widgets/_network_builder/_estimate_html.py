"""What training a network takes, as HTML: each figure with what it is made of. Pure."""

from collections.abc import Sequence

from sparkwright.networks import EstimatedFigure, NetworkEstimate
from sparkwright_widgets._format import bytes_text, escaped
from sparkwright_widgets._fragments import figure_list


def estimate_html(estimate: NetworkEstimate, *, workers: int) -> str:
    """Memory of a worker and bytes that travel, with their parts.

    Args:
        estimate: the figures.
        workers: how many train.
    """
    figures = [
        ("Memory of one worker", f"about {bytes_text(estimate.worker_bytes)}"),
        (f"Memory of {workers} workers", f"about {bytes_text(workers * estimate.worker_bytes)}"),
        *((f"{figure.name}, sent", bytes_text(figure.size_bytes)) for figure in estimate.traffic),
    ]
    return (
        f"{figure_list(figures)}{_parts('Memory of one worker', estimate.memory)}"
        f"{_parts('Traffic of one worker', estimate.traffic)}"
    )


def _parts(title: str, figures: Sequence[EstimatedFigure]) -> str:
    items = "".join(
        f"<li>{escaped(figure.name)}: <b>{escaped(bytes_text(figure.size_bytes))}</b>. "
        f"{escaped(figure.sentence)}</li>"
        for figure in figures
    )
    return f'<div class="sparkwright-estimate"><b>{escaped(title)}</b><ul>{items}</ul></div>'
