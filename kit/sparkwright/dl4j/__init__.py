"""Import Deeplearning4j networks as Keras models."""

from ._network import import_dl4j as import_dl4j
