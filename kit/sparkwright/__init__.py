"""Distributed deep learning on Spark, from a notebook."""

from ._version import __version__ as __version__
