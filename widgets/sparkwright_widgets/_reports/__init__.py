"""HTML and PDF reports of a run or several runs, and parts shared with notebook reports."""

from ._comparison_report import report_runs as report_runs
from ._run_report import report_of as report_of
