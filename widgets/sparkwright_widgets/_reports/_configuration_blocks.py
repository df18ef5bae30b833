"""The configuration of a run: network, optimizer, training master, seed. Pure."""

from dataclasses import replace

from sparkwright_widgets._block import (
    Block,
    facts_block,
    fold,
    joined,
    json_fold,
    table_block,
    text_fold,
)
from sparkwright_widgets._format import count_text, counted, short_value

from ._facts import RunFacts
from ._network_facts import NetworkFacts

# For a deeper network, the table has a row with the number of further layers.
_MOST_LAYERS = 150


def network_block(network: NetworkFacts) -> Block:
    """Return the layers, optimizer, loss and metrics, and the network as code and JSON."""
    shown = network.layers[:_MOST_LAYERS]
    left_out = len(network.layers) - len(shown)
    count = sum(kind != "Input" for _, kind, *_ in network.layers)
    total = [("total", "", "", _parameters(network))]
    more = [(f"{left_out} more layers", "", "", "")] if left_out else []
    pairs: list[tuple[str, object]] = [
        ("Optimizer", network.optimizer or "—"),
        *(
            (f"· {name.replace('_', ' ')}", short_value(value))
            for name, value in network.optimizer_settings.items()
            if value is not None and value is not False and name != "name"
        ),
        ("Loss", network.loss or "—"),
        ("Metrics", ", ".join(network.metrics) or "—"),
    ]
    layers = table_block(
        ["Layer", "Kind", "Output", "Parameters"],
        [*shown, *more, *total],
        caption=f"The network “{network.name}” has {counted(count, 'layer')} and "
        f"{_parameters(network)} parameters.",
        label="Layers",
        text_columns=(1, 2),
    )
    parts = [layers, facts_block(pairs, label="Optimizer, loss and metrics")]
    if network.code:
        parts.append(text_fold("The network as Python code", network.code, prints=True))
    if network.json:
        parts.append(text_fold("The network as JSON", network.json))
    return joined("network", *parts)


def master_block(facts: RunFacts, *, code: str = "") -> Block:
    """Return the settings of the run and its training master, and all of them as JSON."""
    configuration, master = facts.configuration, facts.master
    run: list[tuple[str, object]] = [
        ("Training master", str(master.get("name", "—"))),
        ("Workers", short_value(configuration.get("workers"))),
        ("Epochs", short_value(configuration.get("epochs", facts.status.epochs))),
        ("Seed", short_value(configuration.get("seed"))),
    ]
    settings = [
        (name.replace("_", " ").capitalize(), short_value(value))
        for name, value in master.items()
        if name not in ("name", "workers", "seed")
    ]
    if callbacks := configuration.get("callbacks"):
        run.append(("Callbacks", ", ".join(callbacks)))
    every = facts_block(settings, label="Options")
    return joined(
        "master",
        facts_block(run, label="Configuration of the run"),
        replace(fold("All options of the training master", every.html), text=every.text),
        *([text_fold("The training master as Python code", code)] if code else []),
        json_fold("Configuration of the run as JSON", configuration),
    )


def _parameters(network: NetworkFacts) -> str:
    if network.parameters is None:
        return "unknown"
    text = count_text(network.parameters)
    if network.trainable is not None and network.trainable != network.parameters:
        text += f" ({count_text(network.trainable)} trainable)"
    return text
