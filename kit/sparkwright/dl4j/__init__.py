"""Networks of Deeplearning4j as Keras models."""

from ._network import import_dl4j as import_dl4j
