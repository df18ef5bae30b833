"""Hypothesis strategies for configurations, made from what they declare."""

import hypothesis.strategies as st

from sparkwright.configuration import nested_options, plain_options
from sparkwright.errors import ConfigurationError
from sparkwright.options import MAX_COUNT

# Texts that mean something to one option only, and numbers that must stay apart.
SPECIAL = {
    "network_mask": st.sampled_from([None, "10.0.0.0/16", "192.168.1.7/24"]),
    "ports": st.sampled_from([None, "50000", "50000-50100", "env:TRAINING_PORT"]),
    "server": st.sampled_from(["pool.ntp.org", "10.0.0.1:1123"]),
    "url": st.sampled_from(["/data/runs/7", "s3://bucket/runs 7", "memory://runs/ü"]),
    "monitor": st.sampled_from(["loss", "accuracy"]),
    "keep_best": st.sampled_from(["memory", None, "/data/best.keras"]),
    "save_last": st.sampled_from([None, "s3://bucket/last.keras"]),
    "chunk_bytes": st.integers(1024, 2**20),
    "max_pending_bytes": st.integers(2**20, 2**40),
    "boundaries": st.sets(st.integers(1, MAX_COUNT), min_size=1).map(sorted).map(tuple),
    "min_sparsity": st.floats(1e-9, 1e-3),
    "max_sparsity": st.floats(1e-3, 1.0),
    "patience": st.integers(1, 100),
    "workers_per_node": st.none(),
    "max_workers": st.none(),  # at least `workers`, and of one communication
    "export_directory": st.none(),
    "updater": st.sampled_from(["average", "reset"]),  # "local" goes with one communication
    "exchange_precision": st.just("float32"),  # others go with some updaters
    "of": st.sampled_from([("weights",), ("updates", "activations")]),
    "averaging_delay": st.just(0),  # likewise
}


def configurations(cls):
    """Configurations of a class, with any of their options."""
    required = {each.name: valid(each) for each in plain_options(cls) if each.name == "url"}
    chosen = {each.name: valid(each) for each in plain_options(cls)}
    for nested in nested_options(cls):
        objects = st.one_of([configurations(kind) for kind in nested.kinds.values()])
        chosen[nested.name] = st.none() | objects if nested.optional else objects
    optional = {name: values for name, values in chosen.items() if name not in required}
    return st.fixed_dictionaries(required, optional=optional).map(lambda given: cls(**given))


def valid(option):
    """Valid values of an option."""
    least = option.minimum
    match option.kind:
        case _ if option.name in SPECIAL:
            return SPECIAL[option.name]
        case "int":
            found = st.integers(int(least or 0), int(option.maximum or MAX_COUNT))
        case "float":
            low = least if least is not None else option.above
            high = option.maximum if option.maximum is not None else option.below
            found = st.floats(low, high, exclude_min=least is None and low is not None)
            found = found.filter(lambda value: refusal(option, value) is None)
        case "schedule":
            numbers = st.integers(int(least or 0), MAX_COUNT)
            later = st.dictionaries(st.integers(2, MAX_COUNT), numbers, max_size=3)
            found = numbers | st.builds(
                lambda n, m: {1: n} | dict(sorted(m.items())), numbers, later
            )
        case "flag":
            found = st.booleans()
        case "choice":
            found = st.sampled_from(option.choices)
        case "texts":
            found = st.lists(st.text(max_size=9), unique=True, max_size=3).map(tuple)
        case _:
            found = st.text(min_size=1, max_size=9)
    return st.none() | found if option.optional else found


def refusal(option, value):
    """The sentence with which an option refuses a value; None: it accepts it."""
    try:
        option.check(value)
    except ConfigurationError as error:
        return str(error)
    return None
