"""The losses of several runs as a still picture."""

from collections.abc import Mapping, Sequence

import numpy as np

from ._curve_figure import MARKERS, dress, legend, start_at_zero
from ._decimation import per_column
from ._figure_svg import COLOURS, INK, inline_svg, new_figure
from ._format import loss_text
from ._lines import FloatPoints
from ._quantities import VALIDATION_APART

_COLUMNS = 300
_LONGEST_NAME = 32


def comparison_svg(lines: Mapping[int, FloatPoints], names: Sequence[str], *, alt: str) -> str:
    """Draw the lines of a `ComparisonFeed` as inline SVG.

    Args:
        lines: as `ComparisonFeed.lines()` returns them.
        names: of the runs.
        alt: what the picture shows, in words.
    """
    figure = new_figure(width_inches=7.6, height_inches=3.3)
    axes = figure.add_subplot()
    for line, points in lines.items():
        run, is_validation = line % VALIDATION_APART, line >= VALIDATION_APART
        x, y = per_column(points, columns=_COLUMNS).T
        name = _short(names[run]) + (", validation" if is_validation else "")
        (drawn,) = axes.plot(x, np.where(np.isfinite(y), y, np.nan), color=COLOURS[run % 6])
        # As text: a dollar sign in a name is no formula, an underscore at its start no secret.
        drawn.set(label=" " + name.replace("$", r"\$"), linewidth=1.6)
        drawn.set(linestyle="--" if is_validation else "-")
        drawn.set(marker=MARKERS[(run + run // 6) % 6], markevery=[len(x) - 1], markersize=5)
    axes.set_xlabel("minibatches of each worker", color=INK)
    axes.set_ylabel("loss", color=INK)
    dress(axes)
    if lines:
        legend(axes, columns=2 if max(map(len, names)) > 14 else 4)
        start_at_zero(axes, np.concatenate([points[:, 1] for points in lines.values()]))
    return inline_svg(figure, alt=alt)


def comparison_alt(lines: Mapping[int, FloatPoints], names: Sequence[str]) -> str:
    """In a sentence: where the loss of each run ended."""
    ends: list[str] = []
    for run, name in enumerate(names):
        points = lines.get(run)
        if points is not None:
            end = loss_text(float(points[-1, 1]))
            ends.append(f"{name} {end} after {points[-1, 0]:,.0f} steps")
    return f"Loss curves of {len(names)} runs. At the end: {'; '.join(ends) or 'no loss yet'}."


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
