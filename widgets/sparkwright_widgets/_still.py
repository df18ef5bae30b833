"""The static copy and the summary card of a panel, for saved notebooks."""

from dataclasses import dataclass, field

from . import _fragments as fragments
from ._block import Block
from ._contract import ENDED, MEAN_NAME, Sharing, Status
from ._curve import FloatPoints, NotFinite, QuantityLines
from ._figure_svg import figure_html
from ._format import escaped
from ._quantities import Quantity
from ._run_figures import loss_figure, quantity_figure


@dataclass(frozen=True, kw_only=True, slots=True)
class Still:
    """A snapshot of a run that can be shown without a kernel or widgets."""

    at: str  # time of day
    title: str
    status: Status
    mean_loss: float | None  # of the last complete round; None before the first
    lines: dict[int, FloatPoints]  # from `Curve.lines()`
    not_finite: NotFinite | None  # the first one
    sharing: Sharing | None = None  # None: parameter averaging
    quantities: tuple[Quantity, ...] = ()
    # From `Curve.quantity_lines()`.
    quantity_lines: QuantityLines = field(default_factory=dict[str, dict[int, FloatPoints]])

    def text(self) -> str:
        """Return one line of plain text."""
        far = fragments.progress_text(self.status, self.mean_loss, self.sharing)
        return f"{self.title}: {far}"

    def copy(self) -> Block:
        """Return the static copy of the panel: state, figures, curve and workers."""
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
        """Return the summary card: the result in one line; below, figures, curve and workers."""
        # For saved notebooks without their kernel. Next to a panel or its copy, the style sheet
        # shows only the line, so no curve appears twice.
        if self.status.state not in ENDED:
            # The card is rarely refreshed, so it omits progress that would soon be outdated.
            begun = self.status.state not in ("queued", "starting")
            far = f"{self.text()} (at {self.at})." if begun else f"{self.title}."
            sentence = f"{far} The result appears here when the run ends."
            return Block(html=f"<p>{escaped(sentence)}</p>", text=sentence, kind="card")
        figures = fragments.result_figures(self.status, self.mean_loss, self.sharing)
        html = (
            f"<details open><summary>{escaped(self.text())}</summary>"
            f"{fragments.figure_list(figures)}{fragments.note(self.status)}{self._figure()}"
            f"{fragments.worker_table(self.status.workers, self.sharing)}</details>"
        )
        return Block(html=html, text=self.text(), kind="card")

    def _figure(self) -> str:
        if not self.lines:
            return "<p>No minibatch has been reported yet.</p>"
        names = {} if self.sharing is None else {"mean_name": MEAN_NAME}
        figures = [loss_figure(self.lines, **names)]
        if self.quantities:
            figures.append(quantity_figure(self.quantities, self.quantity_lines))
        return "".join(figure_html(figure, alt=figure.caption) for figure in figures)
