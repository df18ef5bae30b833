"""How data lies in partitions, and what a repartition would do to that."""

from ._preview import PartitionPreview as PartitionPreview
