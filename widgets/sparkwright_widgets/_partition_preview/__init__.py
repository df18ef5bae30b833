"""PartitionPreview: the current partitions of data, and the effect of a repartition."""

from ._preview import PartitionPreview as PartitionPreview
