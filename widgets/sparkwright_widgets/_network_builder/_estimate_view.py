"""What training the network takes, for a minibatch and a number of workers to choose."""

from collections.abc import Sequence
from typing import Any

import ipywidgets as widgets

from sparkwright.networks import (
    EstimatedFigure,
    NetworkEstimate,
    NetworkSpec,
    analysis_now,
    estimate,
)
from sparkwright.options import Option
from sparkwright_widgets._format import bytes_text, escaped
from sparkwright_widgets._fragments import figure_list
from sparkwright_widgets._ui import OptionForm


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


_OPTIONS = (
    Option(
        name="batch_size",
        kind="int",
        default=32,
        minimum=1,
        label="Minibatch of a worker",
        unit="examples",
    ),
    Option(name="workers", kind="int", default=2, minimum=1, unit="processes"),
    Option(
        name="master",
        kind="choice",
        default="averaging",
        choices=("averaging", "sharing"),
        label="Exchange",
        help="averaging: parameters now and then; sharing: compressed updates all the time.",
    ),
)


class EstimateView(widgets.VBox):
    """Memory per worker and bytes per round of a network."""

    def __init__(self) -> None:
        self._spec: NetworkSpec | None = None
        self.form = OptionForm(_OPTIONS)
        self.form.on_change(lambda _name: self._write())
        self.figures = widgets.HTML()
        super().__init__([self.form, self.figures])

    def set_context(self, **values: Any) -> None:
        """Take values from elsewhere: `batch_size`, `workers`, `master`; None: stays."""
        self.form.set({name: value for name, value in values.items() if value is not None})
        self._write()

    def show(self, spec: NetworkSpec) -> None:
        """Estimate another network."""
        self._spec = spec
        self._write()

    def _write(self) -> None:
        if self._spec is None:
            return
        values = self.form.values
        if not analysis_now(self._spec).ok:
            self.figures.value = (
                '<p class="sparkwright-advice">Known when the network has no problem.</p>'
            )
            return
        found = estimate(self._spec, **values)
        self.figures.value = estimate_html(found, workers=values["workers"])
