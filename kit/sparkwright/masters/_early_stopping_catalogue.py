"""What a person should know about each option of early stopping."""

from sparkwright._option import Option

_KEEPING = "Which state is kept"

EARLY_STOPPING = (
    Option(
        name="patience",
        kind="int",
        optional=True,
        minimum=1,
        none_text="never for that reason",
        unit="evaluations",
        label="Without improvement, end after",
        advice="The usual condition: 3 to 10. Needs validation data.",
    ),
    Option(
        name="monitor",
        kind="text",
        default="loss",
        label="Score",
        advice='"loss", or the name of a compiled metric such as accuracy; always of the '
        "validation data.",
    ),
    Option(
        name="mode",
        kind="choice",
        default="auto",
        choices=("auto", "min", "max"),
        label="Better is",
        advice='"auto" knows it of the usual metrics by their names.',
    ),
    Option(
        name="max_epochs",
        kind="int",
        optional=True,
        minimum=1,
        none_text="as given to the run",
        unit="epochs",
        label="Epochs at most",
        advice="An upper bound, however well it goes.",
    ),
    Option(
        name="max_seconds",
        kind="float",
        optional=True,
        above=0,
        none_text="no limit",
        unit="s",
        label="Time at most",
        advice="Counted from the moment at which all workers are there.",
    ),
    Option(
        name="target",
        kind="float",
        optional=True,
        none_text="none",
        label="End at this score",
        advice="For runs that need to be only so good. Needs validation data.",
    ),
    Option(
        name="min_improvement",
        kind="float",
        default=0.0,
        minimum=0,
        label="Smallest improvement",
        advice="A score has to be better by more than this to count; only with patience.",
    ),
    Option(
        name="max_loss",
        kind="float",
        optional=True,
        none_text="no limit",
        label="End above this loss",
        advice="Ends runs that run away: some times the loss of the first minibatch.",
    ),
    Option(
        name="stop_on_invalid",
        kind="flag",
        default=True,
        label="End at NaN or infinity",
        advice="Leave it on: such a network seldom recovers.",
    ),
    Option(
        name="evaluate_every",
        kind="int",
        default=1,
        minimum=1,
        unit="epochs",
        advice="More than 1 if an evaluation takes long beside an epoch; patience counts "
        "evaluations.",
    ),
    Option(
        name="keep_best",
        kind="text",
        default="memory",
        optional=True,
        none_text="nothing",
        group=_KEEPING,
        label="Best state",
        advice='"memory": the network has it when the run is over. A path or URL that ends in '
        ".keras: it is also saved there as the run goes on.",
    ),
    Option(
        name="save_last",
        kind="text",
        optional=True,
        none_text="not saved",
        group=_KEEPING,
        label="File for the last state",
        advice="A path or URL that ends in .keras.",
    ),
)
