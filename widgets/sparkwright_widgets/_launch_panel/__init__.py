"""LaunchPanel: Spark settings, Start, Stop, resume, and the run as it goes on."""

from ._launch_panel import LaunchPanel as LaunchPanel
