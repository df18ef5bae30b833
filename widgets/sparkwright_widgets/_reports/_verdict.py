"""The result of a run: one sentence, and the main figures. Pure."""

from collections.abc import Sequence

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._block import Block
from sparkwright_widgets._contract import ENDED, Sharing
from sparkwright_widgets._format import (
    count_text,
    escaped,
    number_text,
    plain,
    short_number,
)
from sparkwright_widgets._table import text_table

from ._facts import Best, Epoch, RunFacts


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
