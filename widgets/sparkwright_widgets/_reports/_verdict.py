"""What came of a run: one sentence, and the figures behind it. Pure."""

from collections.abc import Sequence

from sparkwright_widgets import _fragments as fragments
from sparkwright_widgets._block import Block
from sparkwright_widgets._contract import ENDED
from sparkwright_widgets._format import (
    count_text,
    duration_text,
    escaped,
    loss_text,
    plain,
    rate_text,
)
from sparkwright_widgets._sharing import Sharing
from sparkwright_widgets._table import text_table

from ._epochs import Best, Epoch
from ._facts import RunFacts


def verdict_sentence(facts: RunFacts, best: Best | None) -> str:
    """The best figure, where it was reached, and why the run ended."""
    status = facts.status
    parts: list[str] = []
    if best is not None:
        value = loss_text(best.value) if "loss" in best.name else f"{best.value:.4g}"
        parts.append(f"best {best.name} {value} in epoch {best.epoch} of {status.epochs}")
    parts.append(_ending(facts))
    text = "; ".join(parts)
    return f"{text[:1].upper()}{text[1:]}."


def verdict_block(
    facts: RunFacts, epochs: Sequence[Epoch], best: Best | None, sharing: Sharing | None
) -> Block:
    """State, verdict and figures.

    Args:
        facts: of the run.
        epochs: as `epochs_of` finds them.
        best: as `best_of` finds it.
        sharing: what is known of gradient sharing; None: parameters were averaged.
    """
    status, sentence = facts.status, verdict_sentence(facts, best)
    has_ended = status.state in ENDED
    icon, word = fragments.STATES[status.state] if has_ended else ("▶", "Still going on")
    last = epochs[-1] if epochs else None
    figures = [
        ("Epochs", f"{count_text(status.epoch)} of {count_text(status.epochs)}"),
        *([("Training loss", loss_text(last.loss))] if last else []),
        *_validation(last),
        ("Workers", count_text(len(status.workers))),
        ("Examples/s", rate_text(status.examples_per_s)),
        ("Time", duration_text(facts.seconds)),
        ("Start to first loss", duration_text(facts.start_seconds)),
        *fragments.sharing_figures(status, sharing),
    ]
    html = (
        f'<p class="sparkwright-state sparkwright-is-{escaped(status.state)}">'
        f'<span class="sparkwright-badge"><span aria-hidden="true">{icon}</span> {word}</span> '
        f"<strong>{escaped(sentence)}</strong></p>"
        f"{fragments.failure(status)}{fragments.figure_list(figures)}{fragments.note(status)}"
        '<p class="sparkwright-note">Figures of the last epoch, unless they say otherwise.</p>'
    )
    words = text_table(["figure", "value"], figures)
    words += f"\n{status.note}" if status.note else ""
    return Block(html=html, text=f"{word}: {sentence}\n{words}", kind="verdict")


def _validation(last: Epoch | None) -> list[tuple[str, str]]:
    if last is None or last.validation_loss is None:
        return []
    metrics = [(f"Validation {name}", f"{v:.4g}") for name, v in last.validation_metrics.items()]
    return [("Validation loss", loss_text(last.validation_loss)), *metrics]


def _ending(facts: RunFacts) -> str:
    status = facts.status
    message = plain(status.message).strip().rstrip(".")
    if status.state == "done" and message.lower() in ("", "done"):
        return f"all {count_text(status.epochs)} epochs were trained"
    if status.state == "failed":
        return f"training failed: {message}"
    return message or status.state
