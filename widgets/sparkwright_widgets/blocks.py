"""Report blocks for notebooks: tables, figures and texts."""

from ._block import Block as Block
from ._environment_table import environment_table as environment_table
from ._evaluation_blocks import confusion_figure as confusion_figure
from ._figure_svg import picture as picture
from ._partition_table import partition_table as partition_table
from ._summary import summary as summary
