"""The report of a run without a notebook: all blocks in order, as one HTML file or as a PDF."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sparkwright.configuration import to_code
from sparkwright.data import DataSet, DistributedDataSet
from sparkwright.data._overview import overview_of
from sparkwright.errors import ConfigurationError
from sparkwright.masters import training_master_from_dict
from sparkwright_widgets._block import Block
from sparkwright_widgets._contract import Run
from sparkwright_widgets._curve import Curve
from sparkwright_widgets._curve_figure import curve_alt, curve_svg
from sparkwright_widgets._format import duration_text, escaped
from sparkwright_widgets._quantity_figure import quantity_alt, quantity_svg
from sparkwright_widgets._sharing import MEAN_NAME, Sharing, sharing_of

from ._alternatives import with_alternative_texts
from ._configuration_blocks import master_block, network_block
from ._data_blocks import data_blocks
from ._distribution_blocks import distribution_blocks
from ._environment_blocks import environment_block, reproduce_block, warnings_block
from ._epochs import best_of, epochs_of
from ._evaluation_section import evaluation_section
from ._facts import RunFacts, facts_of
from ._learning_blocks import learning_blocks
from ._line_tables import minibatch_table, quantity_table
from ._network_facts import model_of, network_facts
from ._page import Section, page, report_body
from ._pdf import pdf_of
from ._saved_model import look_at_model, saved_model_block
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
    """The report of a run; the engine finds this function through `sparkwright.report`.

    Args:
        run: usually one that has ended.
        url: where it will lie: a name that ends in ".pdf" makes it a PDF. Nothing is written.
        network: a SparkNetwork, keras.Model or NetworkSpec; default None: the run's model.
        evaluations: one, a list, or by name; default None: none.
        data: data sets by name; default None: what the run knows.
        title: default None: the run's.
        model_url: of the saved model; default None: none.

    Raises:
        ConfigurationError: if an argument cannot be meant, or a PDF cannot be made.
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
    """As `report_of`, as HTML; `made_at` is told in its first line."""
    facts, sharing = facts_of(run), sharing_of(run)
    network = getattr(run, "model", None) if network is None else network
    described = network_facts(network)
    master_code = _master_code(facts)
    epochs = epochs_of(facts)
    best = best_of(facts, epochs)
    sections = [
        _section("How it learnt", [*learning_blocks(epochs, best), *_minibatches(facts, sharing)]),
        _section("Evaluation", evaluation_section(evaluations)),
        _section("Data", data_blocks(facts, _overviews(data))),
        _section("Distribution over the workers", distribution_blocks(facts)),
        _section("Network", [] if described is None else [network_block(described)]),
        _section("Training configuration", [master_block(facts, code=master_code)]),
        _section("Saved model", _model_blocks(model_url, run, network)),
        _section("Environment", [environment_block(facts)]),
        _section("Warnings", [warnings_block(facts)]),
        _section(
            "How to reproduce it", [reproduce_block(facts, described, master_code=master_code)]
        ),
    ]
    heading = title or facts.title
    opening = _html(verdict_block(facts, epochs, best, sharing))
    body = report_body(heading, opening, [each for each in sections if each.html])
    line = (
        f"Sparkwright report · run {escaped(facts.id)} · "
        f'<time datetime="{made_at.isoformat(timespec="seconds")}">'
        f"{made_at:%d %B %Y, %H:%M}</time> · ran for {escaped(duration_text(facts.seconds))}"
    )
    return with_alternative_texts(page(title=heading, line=line, body=body))


def _section(title: str, blocks: list[Block]) -> Section:
    return Section(title=title, html="\n".join(map(_html, blocks)))


def _html(block: Block) -> str:
    # The page holds the styles once.
    return f'<div class="sparkwright-block sparkwright-{block.kind}">{block.html}</div>'


def _minibatches(facts: RunFacts, sharing: Sharing | None) -> list[Block]:
    """The loss of each minibatch, and with gradient sharing the figures of the messages."""
    curve = Curve(sharing=sharing is not None)
    curve.add_rows(facts.rows)
    curve.add_validation(facts.status.validation)
    curve.finish()
    lines = curve.lines()
    if not lines:
        sentence = "No minibatch has been reported."
        return [Block(html=f"<p>{sentence}</p>", text=sentence, kind="curve")]
    names = {} if sharing is None else {"mean_name": MEAN_NAME}
    alt = curve_alt(lines)
    blocks = [_figure(curve_svg(lines, alt=alt, **names), alt, minibatch_table(lines))]
    quantities = tuple(quantity for _, quantity in curve.quantities()[1:])
    if others := curve.quantity_lines():
        alt = quantity_alt(quantities, others)
        svg = quantity_svg(quantities, others, alt=alt)
        blocks.append(_figure(svg, alt, quantity_table(quantities, others)))
    return blocks


def _figure(svg: str, caption: str, table: str) -> Block:
    html = (
        f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"
        f"<details><summary>The same as a table</summary>{table}</details>"
    )
    return Block(html=html, text=caption, kind="curve")


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
        found[str(name)] = overview_of(each).to_dict()
    return found


def _model_blocks(url: str | None, run: Run, network: Any) -> list[Block]:
    if url is None:
        return []
    model = model_of(getattr(run, "model", None)) or model_of(network)
    return [saved_model_block(look_at_model(url, model))]


def _master_code(facts: RunFacts) -> str:
    try:
        master = training_master_from_dict(dict(facts.master))
    except ConfigurationError:  # the run is of something else
        return f"master = ...  # {facts.master.get('name', 'the training master')}"
    return f"master = {to_code(master)}"
