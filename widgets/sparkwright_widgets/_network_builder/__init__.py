"""The NetworkBuilder: edit a network as a list of layers."""

from ._network_builder import NetworkBuilder as NetworkBuilder
