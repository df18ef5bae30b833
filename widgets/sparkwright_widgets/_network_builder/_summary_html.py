"""One line about the whole network, and what of it stays in a saved notebook. Pure."""

from collections.abc import Sequence

from sparkwright.networks import NetworkAnalysis, NetworkSpec
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import bytes_text, count_text, escaped
from sparkwright_widgets._table import text_table

from ._graph_svg import graph_svg, is_chain
from ._rows_html import layer_table
from ._words import parameters_text, row_state, shape_text

BYTES_A_PARAMETER = 4  # float32


def size_text(analysis: NetworkAnalysis) -> str:
    """How large the network is.

    Example: `8 layers, 431,080 parameters (1.6 MiB)`.
    """
    layers = sum(row.enabled for row in analysis.rows)
    size = bytes_text(BYTES_A_PARAMETER * analysis.parameters)
    fixed = analysis.parameters - analysis.trainable_parameters
    apart = f", {count_text(fixed)} of them fixed" if fixed else ""
    return (
        f"{layers} layer{'' if layers == 1 else 's'}, "
        f"{parameters_text(analysis.parameters)} ({size}{apart})"
    )


def summary_line(analysis: NetworkAnalysis, problem: str | None) -> str:
    """Whether the network can be trained, and if not, why; a screen reader speaks each change."""
    if problem is None:
        key, sign, word, sentence = "done", "✓", "Ready", f"{size_text(analysis)}."
    else:
        key, sign, word = "failed", "✕", "Not ready"
        sentence = f"{problem} It cannot be trained before this is mended."
    return (
        f'<div class="sparkwright-state sparkwright-is-{key}" role="status" aria-live="polite">'
        f'<span class="sparkwright-badge"><span aria-hidden="true">{sign}</span> {word}</span> '
        f'<span class="sparkwright-message">{escaped(sentence)}</span></div>'
    )


def network_block(
    analysis: NetworkAnalysis, *, spec: NetworkSpec | None, name: str, problem: str | None
) -> Block:
    """The network as a piece of a report: its layers, its graph if it is no chain, its training."""
    outputs = [output.layer for output in spec.outputs] if spec else []
    training = _training(spec) if spec else []
    graph = "" if is_chain(analysis.rows) else graph_svg(analysis.rows, name=name, outputs=outputs)
    told = "".join(f"<p>{escaped(sentence)}</p>" for sentence in training)
    html = (
        f"<h3>{escaped(name)}</h3>{summary_line(analysis, problem)}"
        f"{layer_table(analysis.rows, name=name)}{graph}{told}"
    )
    rows = [
        [
            row.index + 1,
            row.name,
            row.kind,
            ", ".join(row.inputs) or "—",
            shape_text(row.output_shape),
            "—" if row.parameters is None else count_text(row.parameters),
            row_state(row).word,
        ]
        for row in analysis.rows
    ]
    heads = ["row", "layer", "kind", "takes", "output shape", "parameters", "state"]
    text = "\n".join(
        [
            f"{name}: {problem or size_text(analysis)}",
            text_table(heads, rows, text_columns=(1, 2, 3, 4, 6)),
            *training,
        ]
    )
    return Block(html=html, text=text, kind="network")


def _training(spec: NetworkSpec) -> Sequence[str]:
    """Sentences about outputs and optimizer."""
    sentences = [
        f"Output {output.layer}: loss {output.loss}"
        + (f", metrics {', '.join(output.metrics)}" if output.metrics else "")
        + ("" if len(spec.outputs) == 1 else f", weight {output.weight:g}")
        + "."
        for output in spec.outputs
    ]
    settings = ", ".join(f"{name} {value}" for name, value in spec.optimizer.options.items())
    seed = "drawn anew each time" if spec.seed is None else f"seed {spec.seed}"
    optimizer = f"{spec.optimizer.kind}{f' ({settings})' if settings else ''}"
    return [*sentences, f"Optimizer {optimizer}. Initial weights: {seed}."]
