"""The report of a run without a notebook: verdict, sections, and overview of the data."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.data.classes import add_counts, class_counts, named_counts
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import TrainingMaster
from sparkwright.python_code import to_code
from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._block import Block, sentence_block
from sparkwright_widgets._contract import ENDED, Run, Sharing, sharing_of
from sparkwright_widgets._curve import Curve
from sparkwright_widgets._evaluation_blocks import evaluation_section
from sparkwright_widgets._figure_svg import figure_block
from sparkwright_widgets._format import (
    count_text,
    duration_text,
    escaped,
    number_text,
    plain,
    short_number,
)
from sparkwright_widgets._histogram_view import histogram_blocks
from sparkwright_widgets._run_figures import run_figures
from sparkwright_widgets._table import text_table

from ._configuration_blocks import master_block, network_block
from ._data_blocks import data_blocks, distribution_blocks
from ._environment_blocks import environment_block, reproduce_block, warnings_block
from ._facts import Best, Epoch, RunFacts, best_of, epochs_of, facts_of
from ._learning_blocks import learning_blocks
from ._network_facts import model_of, network_facts
from ._page import Section, report_page
from ._pdf import pdf_of
from ._saved_model import inspect_model, saved_model_block

# Class -> number of examples; None: the labels are not classes.
_Classes = dict[str, dict[int, int] | None]
_Summary = tuple[int, dict[str, dict[str, Any]], _Classes]


def report_of(
    run: Run,
    *,
    url: str = "report.html",
    network: Any | None = None,
    evaluations: Any | None = None,
    data: Any | None = None,
    title: str | None = None,
    model_url: str | None = None,
) -> bytes:
    """Return the bytes of the report of a run.

    The engine finds this function through the entry point `sparkwright.report`.

    Args:
        run: the run, usually a finished one.
        url: future URL of the report, which is not written; with the suffix ".pdf", it is a PDF.
        network: a SparkNetwork, keras.Model or NetworkSpec; default None: the run's model.
        evaluations: an evaluation, a list, or a dict by name; default None: no evaluations.
        data: data sets by name; default None: only facts recorded by the run.
        title: title of the report; default None: the title of the run.
        model_url: URL of the saved model; default None: no section on a saved model.

    Raises:
        ConfigurationError: if an argument is invalid, or a PDF cannot be made.
    """
    html = run_report_html(
        run,
        network=network,
        evaluations=evaluations,
        data=data,
        title=title,
        model_url=model_url,
        made_at=datetime.now().astimezone(),
    )
    return pdf_of(html) if str(url).lower().endswith(".pdf") else html.encode()


def run_report_html(
    run: Run,
    *,
    made_at: datetime,
    network: Any | None = None,
    evaluations: Any | None = None,
    data: Any | None = None,
    title: str | None = None,
    model_url: str | None = None,
) -> str:
    """Return the report of `report_of` as HTML; `made_at` is its date."""
    facts, sharing = facts_of(run), sharing_of(run)
    network = getattr(run, "model", None) if network is None else network
    described = network_facts(network)
    master_code = _master_code(facts)
    epochs = epochs_of(facts)
    best = best_of(facts, epochs)
    return report_page(
        title=title or facts.title,
        about=f"run {facts.id}",
        took=duration_text(facts.seconds),
        made_at=made_at,
        opening=verdict_block(facts, epochs, best, sharing).inside(),
        sections=[
            Section(
                "How it learned", [*learning_blocks(epochs, best), *_minibatches(facts, sharing)]
            ),
            Section("Evaluation", evaluation_section(evaluations)),
            Section("Data", data_blocks(facts, _overviews(data))),
            Section("Distribution over the workers", distribution_blocks(facts)),
            Section("Histograms", histogram_blocks(run)),
            Section("Network", [] if described is None else [network_block(described)]),
            Section("Training configuration", [master_block(facts, code=master_code)]),
            Section("Saved model", _model_blocks(model_url, run, network)),
            Section("Environment", [environment_block(facts)]),
            Section("Warnings", [warnings_block(facts)]),
            Section(
                "How to reproduce it", [reproduce_block(facts, described, master_code=master_code)]
            ),
        ],
    )


def _minibatches(facts: RunFacts, sharing: Sharing | None) -> list[Block]:
    """Return figures of the loss by minibatch and of the other logged quantities."""
    curve = Curve(sharing=sharing is not None)
    curve.add_rows(facts.rows)
    curve.add_validation(facts.status.validation)
    curve.finish()
    quantities = [quantity for _, quantity in curve.quantities()[1:]]
    figures = run_figures(curve.lines(), quantities, curve.quantity_lines(), sharing)
    nothing = sentence_block("No minibatch has been reported.", kind="curve")
    return list(map(figure_block, figures)) or [nothing]


def _overviews(data: Any) -> dict[str, Mapping[str, Any]]:
    if data is None:
        return {}
    sets: Mapping[str, Any] = data if isinstance(data, Mapping) else {"data": data}
    found: dict[str, Mapping[str, Any]] = {}
    for name, each in sets.items():
        if not isinstance(each, DataSet | DistributedDataSet):
            raise ConfigurationError(
                "`data` must be data sets by name, each a DataSet or a DistributedDataSet. "
                f"Received: {name}={type(each).__name__}."
            )
        found[str(name)] = overview_of(each)
    return found


def _model_blocks(url: str | None, run: Run, network: Any) -> list[Block]:
    if url is None:
        return []
    model = model_of(getattr(run, "model", None)) or model_of(network)
    return [saved_model_block(inspect_model(url, model))]


def _master_code(facts: RunFacts) -> str:
    try:
        master = TrainingMaster.from_dict(dict(facts.master))
    except ConfigurationError:  # not a run of a known training master
        return f"master = ...  # {facts.master.get('name', 'the training master')}"
    return f"master = {to_code(master)}"


# --- the result: one sentence, and the main figures


def verdict_sentence(facts: RunFacts, best: Best | None) -> str:
    """Return a sentence on the best figure, its epoch, and why the run ended."""
    status = facts.status
    parts: list[str] = []
    if best is not None:
        shown = number_text if "loss" in best.name else short_number
        value = shown(best.value)
        parts.append(f"best {best.name} {value} in epoch {best.epoch} of {status.epochs}")
    parts.append(_ending(facts))
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def verdict_block(
    facts: RunFacts, epochs: Sequence[Epoch], best: Best | None, sharing: Sharing | None
) -> Block:
    """Return the state, verdict and main figures of a run."""
    status, sentence = facts.status, verdict_sentence(facts, best)
    has_ended = status.state in ENDED
    icon, word = fragments.STATES[status.state] if has_ended else ("▶", "In progress")
    last = epochs[-1] if epochs else None
    figures = fragments.result_figures(
        status,
        last.loss if last else None,
        sharing,
        seconds=facts.seconds,
        start_seconds=facts.start_seconds,
        loss_name="Training loss",
    )
    html = (
        f'<p class="sparkwright-state sparkwright-is-{escaped(status.state)}">'
        f'<span class="sparkwright-badge"><span aria-hidden="true">{icon}</span> {word}</span> '
        f"<strong>{escaped(sentence)}</strong></p>"
        f"{fragments.failure(status)}{fragments.figure_list(figures)}{fragments.note(status)}"
        '<p class="sparkwright-note">Figures are for the last epoch unless stated otherwise.</p>'
    )
    words = text_table(["figure", "value"], figures)
    words += f"\n{status.note}" if status.note else ""
    return Block(html=html, text=f"{word}: {sentence}\n{words}", kind="verdict")


def _ending(facts: RunFacts) -> str:
    status = facts.status
    message = plain(status.message).strip().rstrip(".")
    if status.state == "done" and message.lower() in ("", "done"):
        return f"all {count_text(status.epochs)} epochs were trained"
    if status.state == "failed":
        return f"training failed: {message}"
    return message or status.state


# --- overview of a data set: sizes, arrays and class balance, as JSON values


def overview_of(data: DataSet | DistributedDataSet) -> dict[str, Any]:
    """Summarize `data` in one pass; axes of varying length are 0.

    Example:
        >>> import numpy as np
        >>> found = overview_of(DataSet(np.zeros((3, 2)), np.array([0, 1, 0])))
        >>> found["rows"], found["size_bytes"], found["classes"]
        (3, 72, {'labels': {'0': 2, '1': 1}})
    """

    # Executors, which have no widgets, get nested functions by value.
    def summarize(chunk: DataSet, partition: int, first: int) -> _Summary:
        classes: _Classes = {}
        for name in chunk.labels:
            try:
                classes[name] = class_counts(chunk, name)
            except DataError:
                classes[name] = None
        columns = {n: {"dtype": str(d), "shape": list(s)} for n, (d, s) in chunk.layout.items()}
        return chunk.size_bytes, columns, classes

    def merge(one: _Summary, other: _Summary) -> _Summary:
        columns, classes = {**one[1], **other[1]}, {**one[2], **other[2]}
        for name in one[1].keys() & other[1].keys():
            shape, second = one[1][name]["shape"], other[1][name]["shape"]
            if len(shape) == len(second):
                shape = [a if a == b else 0 for a, b in zip(shape, second, strict=True)]
            columns[name] = {"dtype": one[1][name]["dtype"], "shape": shape}
        for name in one[2].keys() & other[2].keys():
            a, b = one[2][name], other[2][name]
            try:
                classes[name] = None if a is None or b is None else add_counts(a, b)
            except DataError:  # too many distinct numbers for classes
                classes[name] = None
        return one[0] + other[0], columns, classes

    found = data.reduce_chunks(summarize, merge, description="summarize the data")
    size_bytes, columns, counts = found or (0, {}, {})
    is_local = isinstance(data, DataSet)
    partitions = () if is_local else data.partition_counts()
    names: Mapping[str, Sequence[str]] = {} if is_local else data.class_names
    return {
        "rows": len(data) if is_local else sum(partitions),
        "partitions": list(partitions),
        "size_bytes": size_bytes,
        "columns": columns,
        "classes": {
            name: {str(n): count for n, count in named_counts(of, of, names.get(name)).items()}
            for name, of in counts.items()
            if of is not None
        },
        "fingerprint": None if is_local else data.fingerprint,
    }
