"""Reports: of a run, of several runs, and what those of notebooks need as well."""

from ._comparison_report import report_runs as report_runs
from ._run_report import report_of as report_of
