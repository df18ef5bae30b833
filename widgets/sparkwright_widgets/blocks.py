"""Report blocks for notebooks: tables, figures and texts."""

from ._block import Block as Block
from ._environment_table import environment_table as environment_table
from ._figure_svg import picture as picture
from ._summary import summary as summary
