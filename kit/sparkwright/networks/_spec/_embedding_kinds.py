"""Vectors for indices."""

from sparkwright.options import Option

from ._common_options import initializer, regularizers
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Shape


def _embedded(options: Options, inputs: tuple[Shape, ...]) -> Outcome:
    (shape,) = inputs
    indices, size = options["input_dim"], options["output_dim"]
    return Outcome((*shape, size), indices * size, dtype="float32")


EMBEDDING_KINDS = (
    LayerKind(
        name="Embedding",
        group="embedding",
        sentence="Gives each index, such as that of a word, a vector that is learnt.",
        options=(
            Option(
                name="input_dim",
                kind="int",
                default=10_000,
                minimum=1,
                label="Indices",
                help="One more than the largest index in the data.",
            ),
            Option(
                name="output_dim",
                kind="int",
                default=32,
                minimum=1,
                label="Size of each vector",
                help="16 to 128; more for more indices.",
            ),
            Option(
                name="mask_zero",
                kind="flag",
                default=False,
                label="Index 0 is filling",
                help="Recurrent layers then skip steps with index 0.",
            ),
            initializer("embeddings", "random_uniform"),
            *regularizers("embeddings"),
        ),
        rule=_embedded,
        required=("input_dim", "output_dim"),
        positional=("input_dim", "output_dim"),
        any_dtype=True,
    ),
)
