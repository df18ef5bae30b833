"""A matplotlib figure of one's own as a block of a report."""

from typing import TYPE_CHECKING

from ._block import Block
from ._figure_svg import inline_svg
from ._format import escaped

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def picture(figure: "Figure", *, caption: str) -> Block:
    """Show a figure with a caption, as a picture that stays sharp and needs no other file.

    Make figures with `matplotlib.figure.Figure`, not with pyplot: pyplot's current figure is
    shared by all threads of a notebook.

    Args:
        figure: the figure; drawn once, now.
        caption: below the picture, and read out by screen readers: what is to be seen.
    """
    svg = inline_svg(figure, alt=caption)
    html = f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"
    return Block(html=html, text=caption, kind="picture")
