"""Notebook widgets for Sparkwright: one for each step, the live panel of a run, and reports."""

try:
    import anywidget as _anywidget
    import ipywidgets as _ipywidgets
except ModuleNotFoundError as error:
    if error.name not in ("anywidget", "ipywidgets"):
        raise
    raise ModuleNotFoundError(
        "The notebook widgets need ipywidgets and anywidget. "
        f"Received: no module named {error.name!r}. "
        "Install them with `pip install 'sparkwright[notebook]'`.",
        name=error.name,
    ) from error

from ._data_picker import DataPicker as DataPicker
from ._evaluation_panel import EvaluationPanel as EvaluationPanel
from ._histogram_view import HistogramView as HistogramView
from ._launch_panel import LaunchPanel as LaunchPanel
from ._master_picker import TrainingMasterPicker as TrainingMasterPicker
from ._model_store import ModelStore as ModelStore
from ._network_builder import NetworkBuilder as NetworkBuilder
from ._panel import LivePanel as LivePanel
from ._partition_preview import PartitionPreview as PartitionPreview
from ._reports import report_of as report_of, report_runs as report_runs
from ._runs_table import RunsTable as RunsTable
from ._sweep_view import SweepView as SweepView
from ._timeline_view import TimelineView as TimelineView
from ._workbench import Workbench as Workbench
from .comparison import compare_runs as compare_runs

del _anywidget, _ipywidgets
