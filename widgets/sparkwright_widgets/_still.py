"""What stays of a panel in a saved notebook: the static copy and the summary card."""

from dataclasses import dataclass, field

from . import _fragments as fragments
from ._block import Block
from ._contract import ENDED, Status
from ._curve import FloatPoints, NotFinite, QuantityLines
from ._curve_figure import curve_alt, curve_svg
from ._format import duration_text, escaped, loss_text, rate_text
from ._quantities import Quantity
from ._quantity_figure import quantity_alt, quantity_svg
from ._sharing import MEAN_NAME, Sharing


@dataclass(frozen=True, kw_only=True, slots=True)
class Still:
    """A moment of a run, complete enough to be shown without kernel or browser widgets.

    Attributes:
        at: the time of day, for readers.
        title: the run's title.
        status: the run's status at that moment.
        mean_loss: of the last complete round, None before.
        lines: the curve's points, as `Curve.lines()` returns them.
        not_finite: the first nan or infinite loss, if there was one.
        sharing: what is known of gradient sharing; None for parameter averaging.
        quantities: what else is known, in the order in which it is shown.
        quantity_lines: its lines, as `Curve.quantity_lines()` returns them.
    """

    at: str
    title: str
    status: Status
    mean_loss: float | None
    lines: dict[int, FloatPoints]
    not_finite: NotFinite | None
    sharing: Sharing | None = None
    quantities: tuple[Quantity, ...] = ()
    quantity_lines: QuantityLines = field(default_factory=dict[str, dict[int, FloatPoints]])

    def text(self) -> str:
        """One line of plain text."""
        far = fragments.progress_text(self.status, self.mean_loss, self.sharing)
        return f"{self.title}: {far}"

    def copy(self) -> Block:
        """The panel as it looked: state, figures, curve, workers."""
        html = "".join(
            [
                fragments.state_line(self.title, self.status),
                fragments.failure(self.status),
                fragments.lost_workers(self.status, self.sharing),
                fragments.not_finite_banner(self.not_finite),
                fragments.progress(self.status, self.mean_loss, self.sharing),
                self._figure(),
                fragments.worker_table(self.status.workers, self.sharing),
            ]
        )
        return Block(html=html, text=self.text(), kind="copy")

    def card(self) -> Block:
        """The result in one line, and in a fold the figures, the curve and the workers.

        It is an output of its own, because JupyterLab shows neither the panel nor its static
        copy when a saved notebook is opened again without its kernel.
        """
        if self.status.state not in ENDED:
            # Refreshed seldom: of a run that has not begun it says nothing that soon is wrong.
            begun = self.status.state not in ("queued", "starting")
            far = f"{self.text()} (at {self.at})." if begun else f"{self.title}."
            sentence = f"{far} The result will stand here when the run ends."
            return Block(html=f"<p>{escaped(sentence)}</p>", text=sentence, kind="card")
        html = (
            f"<details><summary>{escaped(self.text())}</summary>"
            f"{fragments.figure_list(self.figures())}{fragments.note(self.status)}{self._figure()}"
            f"{fragments.worker_table(self.status.workers, self.sharing)}</details>"
        )
        return Block(html=html, text=self.text(), kind="card")

    def figures(self) -> list[tuple[str, str]]:
        """The result as (label, value) pairs."""
        status = self.status
        pairs = [
            ("Epochs", f"{status.epoch} of {status.epochs}"),
            ("Loss", loss_text(self.mean_loss)),
            ("Workers", str(len(status.workers))),
            ("Examples/s", rate_text(status.examples_per_s)),
            ("Time", duration_text(status.elapsed_s)),
            *fragments.sharing_figures(status, self.sharing),
        ]
        if status.validation:
            last = status.validation[-1]
            pairs[2:2] = [
                ("Validation loss", loss_text(last.loss)),
                *((f"Validation {name}", f"{value:.4g}") for name, value in last.metrics.items()),
            ]
        return pairs

    def _figure(self) -> str:
        if not self.lines:
            return "<p>No minibatch has been reported yet.</p>"
        alt = curve_alt(self.lines)
        names = {} if self.sharing is None else {"mean_name": MEAN_NAME}
        figures = [(curve_svg(self.lines, alt=alt, **names), alt)]
        if self.quantities:
            alt = quantity_alt(self.quantities, self.quantity_lines)
            figures.append((quantity_svg(self.quantities, self.quantity_lines, alt=alt), alt))
        return "".join(
            f"<figure>{svg}<figcaption>{escaped(alt)}</figcaption></figure>" for svg, alt in figures
        )
