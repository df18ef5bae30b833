"""Report blocks for notebooks: tables, figures and texts."""

from . import _fragments as fragments
from ._block import Block as Block, json_fold
from ._contract import Run, Sharing, sharing_of
from ._curve import Curve
from ._environment_table import environment_table as environment_table
from ._figure_svg import picture as picture
from ._table import text_table


def summary(run: Run) -> Block:
    """Summarize a run in a few figures, with its configuration in a collapsed section.

    Args:
        run: a training run, usually a finished one.
    """
    status, sharing = run.status, sharing_of(run)
    loss = _last_loss(run, sharing)
    seconds, start_seconds = run.seconds, run.start_seconds
    figures = fragments.result_figures(
        status, loss, sharing, seconds=seconds, start_seconds=start_seconds
    )
    html = (
        fragments.state_line(run.title, status)
        + fragments.failure(status)
        + fragments.figure_list(figures)
        + fragments.note(status)
        + json_fold("Configuration of the run", run.configuration).html
    )
    text = f"{run.title}: {status.state}\n{text_table(['figure', 'value'], figures)}"
    text += f"\n{status.note}" if status.note else ""
    return Block(html=html, text=text, kind="summary")


def _last_loss(run: Run, sharing: Sharing | None) -> float | None:
    """Return the mean loss of the last complete round, computed as in the live panel."""
    curve = Curve(sharing=sharing is not None)
    curve.add_rows(run.log.rows())
    curve.finish()
    return curve.mean_loss
