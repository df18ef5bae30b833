"""The summary of a finished (or running) run, for reports."""

import json

from . import _fragments as fragments
from ._block import Block
from ._contract import Run
from ._curve import Curve
from ._format import duration_text, escaped, loss_text, rate_text
from ._sharing import Sharing, sharing_of
from ._table import text_table


def summary(run: Run) -> Block:
    """What came of a run in a few figures, with its configuration in a fold.

    Args:
        run: a training run, usually one that has ended.
    """
    status, sharing = run.status, sharing_of(run)
    figures = [
        ("Epochs", f"{status.epoch} of {status.epochs}"),
        ("Loss", loss_text(_last_loss(run, sharing))),
        *_validation_figures(run),
        *fragments.early_stopping_figures(status),
        ("Workers", str(len(status.workers))),
        ("Examples/s", rate_text(status.examples_per_s)),
        ("Time", duration_text(run.seconds)),
        ("Start to first loss", duration_text(run.start_seconds)),
        *fragments.sharing_figures(status, sharing),
    ]
    configuration = json.dumps(run.configuration, indent=2, default=str)
    html = (
        fragments.state_line(run.title, status)
        + fragments.failure(status)
        + fragments.figure_list(figures)
        + fragments.note(status)
        + "<details><summary>Configuration of the run</summary>"
        + f'<pre tabindex="0">{escaped(configuration)}</pre></details>'
    )
    text = f"{run.title}: {status.state}\n{text_table(['figure', 'value'], figures)}"
    text += f"\n{status.note}" if status.note else ""
    return Block(html=html, text=text, kind="summary")


def _validation_figures(run: Run) -> list[tuple[str, str]]:
    if not run.status.validation:
        return []
    last = run.status.validation[-1]
    metrics = [(f"Validation {name}", f"{value:.4g}") for name, value in last.metrics.items()]
    return [("Validation loss", loss_text(last.loss)), *metrics]


def _last_loss(run: Run, sharing: Sharing | None) -> float | None:
    """The mean of the last complete round, as the panel and the log's own reader compute it."""
    curve = Curve(sharing=sharing is not None)
    curve.add_rows(run.log.rows())
    curve.finish()
    return curve.mean_loss
