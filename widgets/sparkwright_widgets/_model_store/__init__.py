"""Saved models of a folder: save, load, compare, check, delete."""

from ._store import ModelStore as ModelStore
