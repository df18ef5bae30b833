"""What stays of a panel in a saved notebook: the static copy and the summary card."""

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
        """The result in one line, and in an open fold the figures, the curve and the workers.

        It is an output of its own, because neither the panel nor its static copy is shown where a
        saved notebook is opened again without its kernel, or exported with the widgets' state.
        Beside a panel or its copy the style sheet leaves only the line: no curve is seen twice.
        """
        if self.status.state not in ENDED:
            # Refreshed seldom: of a run that has not begun it says nothing that soon is wrong.
            begun = self.status.state not in ("queued", "starting")
            far = f"{self.text()} (at {self.at})." if begun else f"{self.title}."
            sentence = f"{far} The result will stand here when the run ends."
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
