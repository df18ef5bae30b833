"""Workbench: all steps from data to a saved model in one panel."""

from ._workbench import Workbench as Workbench
