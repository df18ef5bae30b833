"""The version, as a literal: zip-shipped copies on executors have no package metadata."""

__version__ = "1.0.0rc1"
