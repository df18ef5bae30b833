"""A trainer's part in adapting preprocessing layers: their own code counts tokens."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparkwright.networks.adapted import lookup_of

from .requests import AdaptRequest


class TokenCounts(NamedTuple):
    """The tokens of some examples.

    Attributes:
        tokens: (tokens,) text or int64.
        counts: (tokens,) int64: how often each occurs.
        documents: (tokens,) int64: in how many examples; empty unless the layer needs it.
        examples: how many.
    """

    tokens: NDArray[Any]
    counts: NDArray[np.int64]
    documents: NDArray[np.int64]
    examples: int


def count_tokens(request: AdaptRequest) -> TokenCounts:
    """Count as `layer.adapt` does.

    Raises:
        Whatever the layer, or the user's own functions in it, raise.
    """
    layer = request.definition.build()
    examples = request.examples
    # As `adapt`: a number or text an example is an example of one token.
    layer.update_state(examples[:, None] if examples.ndim == 1 else examples)
    lookup = lookup_of(layer)
    tokens, counts = lookup.token_counts.export()
    documents = np.empty(0, np.int64)
    if lookup.output_mode == "tf_idf":
        documents = lookup.token_document_counts.lookup(tokens).numpy()
    return TokenCounts(tokens.numpy(), counts.numpy(), documents, len(examples))
