"""A smaller plot beside or below another, in the place of one."""

from typing import Any, Literal


def split_axes(axes: Any, side: Literal["below", "right"], *, share: float = 0.25) -> Any:
    """Make room for a second plot.

    An inset would do, but for constrained layout, which cuts off what reaches out of the axes.

    Args:
        axes: the matplotlib Axes that give some of their place.
        side: where the second one goes; it shares the axis along the common side.
        share: of the place, between 0 and 1.

    Returns:
        The Axes of the second one.
    """
    below, ratios = side == "below", [1 - share, share]
    shared = {"sharex": axes} if below else {"sharey": axes}
    spec = axes.get_subplotspec()
    if spec is None:  # axes that were placed by hand
        box, gap = axes.get_position(), 0.03
        if below:
            low = box.height * share
            axes.set_position([box.x0, box.y0 + low + gap, box.width, box.height - low - gap])
            place = [box.x0, box.y0, box.width, low]
        else:
            wide = box.width * share
            axes.set_position([box.x0, box.y0, box.width - wide - gap, box.height])
            place = [box.x1 - wide, box.y0, wide, box.height]
        second = axes.figure.add_axes(place, **shared)
    else:
        grid = (
            spec.subgridspec(2, 1, height_ratios=ratios)
            if below
            else spec.subgridspec(1, 2, width_ratios=ratios)
        )
        axes.set_subplotspec(grid[0])
        second = axes.figure.add_subplot(grid[1], **shared)
    axes.tick_params(**{"labelbottom": False} if below else {})
    second.tick_params(**{} if below else {"labelleft": False})
    second.spines[["top", "right"]].set_visible(False)
    return second
