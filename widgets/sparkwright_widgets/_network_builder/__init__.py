"""The NetworkBuilder: a network as a list of layers, edited row by row."""

from ._network_builder import NetworkBuilder as NetworkBuilder
