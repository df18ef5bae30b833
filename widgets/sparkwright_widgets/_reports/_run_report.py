"""Create the report of a run without a notebook, as one HTML file or as a PDF."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.errors import ConfigurationError
from sparkwright.masters import TrainingMaster
from sparkwright.python_code import to_code
from sparkwright_widgets._block import Block, sentence_block
from sparkwright_widgets._contract import Run, Sharing, sharing_of
from sparkwright_widgets._curve import Curve
from sparkwright_widgets._evaluation_blocks import evaluation_section
from sparkwright_widgets._figure_svg import figure_block
from sparkwright_widgets._format import duration_text
from sparkwright_widgets._histogram_view import histogram_blocks
from sparkwright_widgets._run_figures import run_figures

from ._configuration_blocks import master_block, network_block
from ._data_blocks import data_blocks, distribution_blocks
from ._environment_blocks import environment_block, reproduce_block, warnings_block
from ._facts import RunFacts, best_of, epochs_of, facts_of
from ._learning_blocks import learning_blocks
from ._network_facts import model_of, network_facts
from ._overview import overview_of
from ._page import Section, report_page
from ._pdf import pdf_of
from ._saved_model import inspect_model, saved_model_block
from ._verdict import verdict_block


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
