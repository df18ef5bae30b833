"""Recurrent layers, and attention."""

from sparkwright.options import Option

from ._common_options import activation, initializer, rate, regularizers, use_bias
from ._layer_kind import LayerKind, Options, Outcome
from ._shapes import Misfit, Shape, check_rank, known, shape_text

Shapes = tuple[Shape, ...]
GATES = {"LSTM": 4, "GRU": 3, "SimpleRNN": 1}
_FURTHER = "Further options"
_SEQUENCES = "sequences (steps x features)"


def _cell_parameters(cell: str, options: Options, features: int) -> int:
    units = options["units"]
    # A GRU that resets after the product has a bias for each of the two products.
    biases = 2 if cell == "GRU" and options.get("reset_after", True) else 1
    return GATES[cell] * units * (features + units + bool(options["use_bias"]) * biases)


def _recurrent(options: Options, inputs: Shapes, cell: str) -> Outcome:
    (shape,) = inputs
    check_rank(shape, 2, _SEQUENCES, "Put an Embedding or a Reshape before it.")
    parameters = _cell_parameters(cell, options, known(shape[-1], "features"))
    units = options["units"]
    return Outcome((shape[0], units) if options["return_sequences"] else (units,), parameters)


def _both_ways(options: Options, inputs: Shapes) -> Outcome:
    once = _recurrent(options, inputs, options["cell"])
    units = options["units"] * (2 if options["merge_mode"] == "concat" else 1)
    return Outcome((*once.shape[:-1], units), 2 * once.trainable)


def _attention(options: Options, inputs: Shapes) -> Outcome:
    for shape in inputs:
        check_rank(shape, 2, _SEQUENCES)
    query, value = inputs[0], inputs[1]
    key = inputs[2] if len(inputs) > 2 else value
    if None not in (query[-1], key[-1]) and query[-1] != key[-1]:
        raise Misfit(
            "needs as many features in the query as in the key, receives "
            f"{shape_text(query)} and {shape_text(key)}."
        )
    _check_steps(key, value)
    parameters = bool(options["use_scale"]) + (options["score_mode"] == "concat")
    return Outcome((*query[:-1], value[-1]), parameters)


def _heads(options: Options, inputs: Shapes) -> Outcome:
    for shape in inputs:
        check_rank(shape, 2, _SEQUENCES)
    query = inputs[0]
    value = inputs[1] if len(inputs) > 1 else query
    key = inputs[2] if len(inputs) > 2 else value
    _check_steps(key, value)
    wide = known(query[-1], "features")
    heads, key_size = options["num_heads"], options["key_dim"]
    value_size = options["value_dim"] or key_size
    bias = bool(options["use_bias"])
    parameters = (
        (wide + bias) * heads * key_size
        + (known(key[-1], "features") + bias) * heads * key_size
        + (known(value[-1], "features") + bias) * heads * value_size
        + heads * value_size * wide
        + bias * wide
    )
    return Outcome(query, parameters)


def _check_steps(key: Shape, value: Shape) -> None:
    if key[0] != value[0]:
        raise Misfit(
            "needs as many steps in the key as in the value, receives "
            f"{shape_text(key)} and {shape_text(value)}."
        )


def _dropout(name: str, advice: str) -> Option:
    return rate(advice, name=name, default=0.0)


_UNITS = Option(
    name="units",
    kind="int",
    default=64,
    minimum=1,
    help="Numbers that it remembers at each step.",
)
_SEQUENCE_OPTION = Option(
    name="return_sequences",
    kind="flag",
    default=False,
    label="Output at each step",
    help="Needed when another recurrent layer follows; otherwise only the last step comes out.",
)
_DROPOUTS = (
    _dropout("dropout", "Part of the inputs that training sets to 0."),
    _dropout("recurrent_dropout", "Part of what is remembered that training sets to 0; slow."),
)
_BACKWARDS = Option(
    name="go_backwards",
    kind="flag",
    default=False,
    group=_FURTHER,
    help="Reads sequences from their end.",
)


def _gate_activation(default: str = "sigmoid") -> Option:
    return Option(
        name="recurrent_activation",
        kind="choice",
        default=default,
        choices=("sigmoid", "hard_sigmoid", "tanh", "relu", "linear"),
        group=_FURTHER,
        help="Of the gates: leave it as it is.",
    )


def _weights() -> tuple[Option, ...]:
    return (
        use_bias(),
        initializer(),
        initializer("recurrent", "orthogonal"),
        *regularizers(),
        *regularizers("recurrent"),
    )


def _kind(cell: str, sentence: str, *further: Option) -> LayerKind:
    gates = () if cell == "SimpleRNN" else (_gate_activation(),)
    return LayerKind(
        name=cell,
        group="recurrent",
        sentence=sentence,
        options=(
            _UNITS,
            _SEQUENCE_OPTION,
            activation("tanh"),
            *_DROPOUTS,
            *gates,
            _BACKWARDS,
            *further,
            *_weights(),
        ),
        rule=lambda options, inputs: _recurrent(options, inputs, cell),
        required=("units",),
        positional=("units",),
        seeded_by=("dropout", "recurrent_dropout"),
    )


RECURRENT_KINDS = (
    _kind("LSTM", "Reads a sequence step by step, and remembers for long."),
    _kind(
        "GRU",
        "Reads a sequence step by step; smaller than an LSTM and often as good.",
        Option(
            name="reset_after",
            kind="flag",
            default=True,
            group=_FURTHER,
            help="Leave it as it is: the fast kernels need it.",
        ),
    ),
    _kind("SimpleRNN", "Reads a sequence step by step; forgets after a few steps."),
    LayerKind(
        name="Bidirectional",
        group="recurrent",
        sentence="Reads a sequence from both ends, with a recurrent layer for each.",
        options=(
            Option(
                name="cell",
                kind="choice",
                default="LSTM",
                choices=("LSTM", "GRU", "SimpleRNN"),
                help="The layer that reads.",
            ),
            _UNITS,
            _SEQUENCE_OPTION,
            Option(
                name="merge_mode",
                kind="choice",
                default="concat",
                choices=("concat", "sum", "mul", "ave"),
                help="concat keeps both results side by side; the others mix them.",
            ),
            activation("tanh"),
            *_DROPOUTS,
            *_weights(),
        ),
        rule=_both_ways,
        required=("cell", "units"),
        seeded_by=("dropout", "recurrent_dropout"),
        inner="cell",
        outer=("merge_mode",),
    ),
    LayerKind(
        name="Attention",
        group="recurrent",
        sentence="For each step of the first sequence, a weighted mean of the second one's steps.",
        options=(
            Option(
                name="use_scale",
                kind="flag",
                default=False,
                label="Learn a scale",
                help="Learns by how much to multiply the scores.",
            ),
            Option(
                name="score_mode",
                kind="choice",
                default="dot",
                choices=("dot", "concat"),
                help="dot compares by products, concat by sums.",
            ),
            _dropout("dropout", "Part of the weights that training sets to 0."),
        ),
        rule=_attention,
        takes="several",
        most=3,
        seeded_by=("dropout",),
    ),
    LayerKind(
        name="MultiHeadAttention",
        group="recurrent",
        sentence=(
            "Several attentions side by side; with one input, of a sequence to itself. "
            "Its first weights are drawn anew each time, whatever the seed."
        ),
        options=(
            Option(
                name="num_heads",
                kind="int",
                default=2,
                minimum=1,
                label="Heads",
                help="How many attentions; 2 to 8.",
            ),
            Option(
                name="key_dim",
                kind="int",
                default=32,
                minimum=1,
                label="Size of each head",
                help="Often the number of features divided by the heads.",
            ),
            Option(
                name="value_dim",
                kind="int",
                minimum=1,
                optional=True,
                none_text="as the key",
                group=_FURTHER,
            ),
            _dropout("dropout", "Part of the weights that training sets to 0."),
            use_bias(),
        ),
        rule=_heads,
        takes="several",
        least=1,
        most=3,
        required=("num_heads", "key_dim"),
        positional=("num_heads", "key_dim"),
        seeded_by=("dropout",),
        separately=True,
    ),
)
