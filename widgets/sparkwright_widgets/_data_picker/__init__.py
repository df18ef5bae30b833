"""Picking data: where it is, what it looks like, which columns are used for what."""

from ._data_picker import DataPicker as DataPicker
