"""The version, as a literal: zip-shipped copies on executors have no package metadata."""

__version__ = "0.1.0"
