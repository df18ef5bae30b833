"""The ModelStore: save, load, compare, check and delete the models of a folder."""

from ._store import ModelStore as ModelStore
