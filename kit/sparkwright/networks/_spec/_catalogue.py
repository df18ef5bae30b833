"""Every class of layers that a network can be made of."""

from collections.abc import Mapping
from types import MappingProxyType

from ._activation_kinds import ACTIVATION_KINDS
from ._convolution_kinds import CONVOLUTION_KINDS
from ._core_kinds import CORE_KINDS
from ._embedding_kinds import EMBEDDING_KINDS
from ._layer_kind import Group, LayerKind
from ._merging_kinds import MERGING_KINDS
from ._normalisation_kinds import NORMALISATION_KINDS
from ._pooling_kinds import POOLING_KINDS
from ._recurrent_kinds import RECURRENT_KINDS
from ._regularising_kinds import REGULARISING_KINDS
from ._reshaping_kinds import RESHAPING_KINDS

LAYER_KINDS: Mapping[str, LayerKind] = MappingProxyType(
    {
        kind.name: kind
        for kind in (
            *CORE_KINDS,
            *REGULARISING_KINDS,
            *ACTIVATION_KINDS,
            *CONVOLUTION_KINDS,
            *POOLING_KINDS,
            *RECURRENT_KINDS,
            *EMBEDDING_KINDS,
            *NORMALISATION_KINDS,
            *RESHAPING_KINDS,
            *MERGING_KINDS,
        )
    }
)


def layer_kinds(group: Group | None = None) -> tuple[LayerKind, ...]:
    """The classes of layers of `group`; None: all, group by group.

    Example:
        >>> [kind.name for kind in layer_kinds("core")][:2]
        ['Input', 'Dense']
    """
    return tuple(kind for kind in LAYER_KINDS.values() if group in (None, kind.group))
