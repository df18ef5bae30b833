"""Workbench: the whole way from data to a saved model, as one panel."""

from ._workbench import Workbench as Workbench
