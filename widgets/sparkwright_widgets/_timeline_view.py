"""TimelineView: the phases of a run over time, as a figure that is saved in the notebook."""

from typing import Any

import ipywidgets as widgets

from sparkwright.errors import ConfigurationError
from sparkwright.timeline import Timeline
from sparkwright.timeline.page import lanes_html
from sparkwright.timeline.summary import report_of

from ._block import Block
from ._figure_svg import tabled
from ._format import escaped
from ._ui import Part

_MOST_ROWS = 24


class TimelineView(Part):
    """Lanes of driver and workers, colored by phase, and the total time of each phase.

    The view shows the timeline at its creation. It does not update automatically: the *Update*
    button shows the current timeline of the run.

    Args:
        source: a run, whose `timeline` is shown, or a `Timeline`.

    Raises:
        ConfigurationError: if `source` is neither.

    Example:
        >>> from sparkwright.timeline import SpanStore
        >>> TimelineView(SpanStore(workers=2).timeline()).timeline
        Timeline(name='', workers=2, elapsed_s=0.000, spans=0)
    """

    def __init__(self, source: Any) -> None:
        self._run: Any = None if isinstance(source, Timeline) else source
        found = source if self._run is None else getattr(self._run, "timeline", None)
        if not isinstance(found, Timeline):
            raise ConfigurationError(
                "`source` must be a run or a Timeline. "
                f"Received: a {type(source).__name__}. Pass the result of `network.start(…)`."
            )
        self._timeline = found
        super().__init__("Timeline")
        self.button = self.new_button("Update", self.update)
        self.picture = widgets.HTML()
        self._draw()
        self.show(*([] if self._run is None else [self.button]), self.picture)

    @property
    def timeline(self) -> Timeline:
        """The timeline that is shown."""
        return self._timeline

    def update(self) -> bool:
        """Start to draw the current timeline in the background; return whether it was started."""
        run = self._run
        if run is None:
            return False
        self.button.disabled = True

        def then(timeline: Timeline) -> None:
            self._timeline = timeline
            self._draw()
            self._changed()

        def over() -> None:
            self.button.disabled = False

        return self.in_background("Drawing", lambda: run.timeline, then, finally_=over)

    def _draw(self) -> None:
        self._block = timeline_block(self._timeline)
        self.picture.value = f'<div class="sparkwright-timeline">{self._block.html}</div>'

    def _still(self) -> Block | None:
        return self._block


def timeline_block(timeline: Timeline) -> Block:
    """Return lanes, legend and tables of a timeline; the text is its summary."""
    report = report_of(timeline)
    lines = "".join(f"<p>{escaped(line)}</p>" for line in (report.title, *report.notes))
    tables = "".join(
        tabled(table, label="Time by phase", kind="timeline").html if table.rows else table.html()
        for table in report.tables
    )
    html = f"{lines}{lanes_html(timeline, most=_MOST_ROWS)}{tables}"
    return Block(html=html, text=report.text(), kind="timeline")
