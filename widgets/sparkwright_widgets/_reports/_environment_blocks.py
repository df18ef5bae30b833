"""Environment, dates and warnings of a run, and code that reproduces it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from sparkwright_widgets._block import (
    Block,
    facts_block,
    fold,
    joined,
    sentence_block,
    table_block,
    text_fold,
)
from sparkwright_widgets._environment_table import environment_rows
from sparkwright_widgets._format import counted, duration_text, escaped

from ._facts import RunFacts
from ._network_facts import NetworkFacts


def environment_block(facts: RunFacts) -> Block:
    """Return versions, machine, dates, commit, and non-default Spark settings."""
    configuration = facts.configuration
    at_run: Any = configuration.get("environment") or {}
    rows: list[Sequence[object]] = [
        ("Started", _moment(facts.started_at)),
        ("Ended", _moment(facts.ended_at)),
        ("Duration", duration_text(facts.seconds)),
        ("Commit of the working folder", configuration.get("revision") or "none"),
        *(
            (title, known[name])
            for known, name, title in (
                (at_run, "platform", "Platform of the driver"),
                (configuration, "spark_master", "Spark master"),
                (configuration, "spark_parallelism", "Task slots of Spark"),
                (configuration, "java", "Java of the driver"),
            )
            if name in known
        ),
        *(row for row in environment_rows() if not (row[0] == "Java" and "java" in configuration)),
    ]
    table = table_block(["What", "Value"], rows, label="Environment", text_columns=(1,))
    settings: Any = configuration.get("spark_settings") or {}
    if not settings:
        return joined("environment", table)
    title = "Non-default Spark settings; secrets are hidden"
    spark = facts_block(list(settings.items()), label="Spark")
    return joined("environment", table, fold(title, spark.html))


def warnings_block(facts: RunFacts) -> Block:
    """Return the warnings of the run, and the number of losses that were not finite."""
    rate, loss = facts.rows.get("examples_per_s"), facts.rows["loss"]
    # Rows of lost workers have NaN in both columns.
    known = np.ones(len(loss), bool) if rate is None else ~np.isnan(rate)
    wrong = int((known & ~np.isfinite(loss)).sum())
    texts = list(facts.warnings)
    if wrong:
        minibatches = counted(wrong, "minibatch", "minibatches")
        texts.insert(0, f"The loss of {minibatches} was not a finite number.")
    if not texts:
        return sentence_block("No warnings were raised.", kind="warnings")
    items = "".join(f"<li>{escaped(text)}</li>" for text in texts)
    html = (
        '<div class="sparkwright-alert sparkwright-is-warning"><strong>'
        f'<span aria-hidden="true">⚠</span> {counted(len(texts), "warning")}</strong>'
        f"<ul>{items}</ul></div>"
    )
    return Block(html=html, text="\n".join(texts), kind="warnings")


def reproduce_block(facts: RunFacts, network: NetworkFacts | None, *, master_code: str) -> Block:
    """Return a notebook cell that reproduces the run, as far as its settings are recorded."""
    code = reproducing_code(facts, network, master_code=master_code)
    sentence = "This cell reproduces the training."
    if facts.code is None:
        sentence += " Replace each `...` with your own code."
    cell = text_fold("Code", code, opens=True, prints=True)
    return Block(html=f"<p>{sentence}</p>{cell.html}", text=code, kind="reproduce")


def reproducing_code(facts: RunFacts, network: NetworkFacts | None, *, master_code: str) -> str:
    """Return the Python code of a notebook cell that reproduces the run."""
    configuration = facts.configuration
    commit = configuration.get("revision")
    lines = [f"# git checkout {commit}"] if commit else []
    packages = ("sparkwright", "keras", "pyspark")
    at_run: Mapping[str, Any] = configuration.get("environment") or {}
    pins = " ".join(f"{name}=={at_run[name]}" for name in packages if name in at_run)
    lines += [f"# pip install {pins}"] if pins else []
    if facts.code is not None:
        return "\n".join([*lines, facts.code.rstrip()])
    lines += ["import sparkwright as sw", ""]
    if network is not None and network.code:
        lines += [network.code.rstrip(), ""]
    else:
        name = network.name if network else configuration.get("model", "")
        lines += [f"model = ...  # the network {name!r}", ""]
    lines += [master_code.rstrip(), ""]
    epochs = configuration.get("epochs", facts.status.epochs)
    validates = bool(facts.status.validation)
    arguments = f"train, epochs={epochs}" + (", validation=validation" if validates else "")
    if callbacks := configuration.get("callbacks"):
        lines += [f"callbacks = [...]  # {', '.join(callbacks)}"]
        arguments += ", callbacks=callbacks"
    lines += ["train = ...  # the training data"]
    lines += ["validation = ...  # the validation data"] * validates
    lines.append("")
    if "spark_master" in configuration:
        lines += [
            f"spark = sw.start_spark(workers={configuration.get('workers')})",
            "network = sw.SparkNetwork(spark, model, master)",
            f"network.fit({arguments})",
        ]
    else:
        workers = configuration.get("workers")
        lines += [
            f"with sw.ParallelWrapper(model, master, workers={workers}) as wrapper:",
            f"    wrapper.fit({arguments})",
        ]
    return "\n".join(lines)


def _moment(moment: datetime | None) -> str:
    return "—" if moment is None else f"{moment:%d %B %Y, %H:%M:%S %Z}"
