"""What training adds to values or takes from them, against learning by heart."""

from sparkwright.options import Option

from ._common_options import rate
from ._convolution_kinds import REMEDY, WHAT
from ._core_kinds import same
from ._layer_kind import LayerKind, Outcome
from ._shapes import Shape, check_rank


def _whole_channels(inputs: tuple[Shape, ...], rank: int) -> Outcome:
    check_rank(inputs[0], rank + 1, WHAT[rank], REMEDY)
    return Outcome(inputs[0])


REGULARISING_KINDS = (
    LayerKind(
        name="Dropout",
        group="core",
        sentence="In training, sets some of the values to 0, against learning by heart.",
        options=(rate("0.2 to 0.5; more against learning by heart."),),
        rule=same,
        required=("rate",),
        positional=("rate",),
        seeded_by=("rate",),
    ),
    LayerKind(
        name="GaussianNoise",
        group="core",
        sentence="In training, adds normal noise to the values.",
        options=(
            Option(
                name="stddev",
                kind="float",
                default=0.1,
                minimum=0,
                label="Standard deviation",
                help="In units of the values: about 0.1 for normalised ones.",
            ),
        ),
        rule=same,
        required=("stddev",),
        positional=("stddev",),
        seeded_by=("stddev",),
    ),
    LayerKind(
        name="GaussianDropout",
        group="core",
        sentence="In training, multiplies the values by normal noise around 1.",
        options=(rate("0.2 to 0.5, as with Dropout."),),
        rule=same,
        required=("rate",),
        positional=("rate",),
        seeded_by=("rate",),
    ),
    *(
        LayerKind(
            name=f"SpatialDropout{rank}D",
            group="core",
            sentence=f"In training, sets whole channels of {WHAT[rank]} to 0.",
            options=(rate("0.1 to 0.3; after convolutions better than Dropout."),),
            rule=lambda options, inputs, rank=rank: _whole_channels(inputs, rank),
            required=("rate",),
            positional=("rate",),
            seeded_by=("rate",),
        )
        for rank in (1, 2)
    ),
)
