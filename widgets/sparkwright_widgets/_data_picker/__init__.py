"""The DataPicker: location, preview and columns of a data source."""

from ._data_picker import DataPicker as DataPicker
