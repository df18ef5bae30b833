"""Render the texts of the panel as HTML, as pure functions of a status.

The live panel and its static copy in the saved notebook share these fragments. Every state has an
icon and a word, so that color is never the only cue.
"""

from collections.abc import Sequence

from ._contract import ENDED, Sharing, Status, Worker
from ._curve import NotFinite
from ._format import (
    ago_text,
    bytes_text,
    count_text,
    duration_text,
    escaped,
    loss_text,
    percent_text,
    plain,
    rate_text,
)
from ._table import Markup, html_table
from ._traceback import users_code

STATES = {
    "queued": ("⋯", "Queued"),
    "starting": ("◔", "Starting"),
    "training": ("▶", "Training"),
    "stopping": ("◼", "Stopping"),
    "done": ("✓", "Done"),
    "stopped": ("◼", "Stopped"),
    "failed": ("✕", "Failed"),
}
_WORKER_STATES = {
    "waiting": ("⋯", "waiting"),
    "starting": ("◔", "starting"),
    "training": ("▶", "training"),
    "validating": ("◇", "validating"),
    "stalled": ("⚠", "stalled"),
    "lost": ("✕", "lost"),
    "done": ("✓", "done"),
    "stopped": ("◼", "stopped"),
}


def state_line(title: str, status: Status) -> str:
    """Icon, word and message of the state; without numbers, as screen readers read changes."""
    icon, word = STATES.get(status.state, ("?", status.state))
    # Omit the message of a failure, which the error box shows, and one that repeats the state.
    says_more = status.state != "failed" and status.message.strip(". ").lower() != word.lower()
    message = status.message if says_more else ""
    return (
        f'<div class="sparkwright-state sparkwright-is-{escaped(status.state)}" role="status" '
        f'aria-live="polite"><span class="sparkwright-badge"><span aria-hidden="true">{icon}</span>'
        f" {escaped(word)}</span> <strong>{escaped(title)}</strong>"
        f'<span class="sparkwright-message">{escaped(message)}</span></div>'
    )


def progress(status: Status, mean_loss: float | None, sharing: Sharing | None = None) -> str:
    """Progress bars of epoch and round, and the main figures."""
    has_ended = status.state in ENDED
    word, number = _round(status, sharing)
    validation = status.validation[-1].loss if status.validation else None
    figures = [
        ("Loss", loss_text(mean_loss)),
        *([("Validation loss", loss_text(validation))] if validation is not None else []),
        ("Examples/s", rate_text(status.examples_per_s)),
        ("Elapsed", duration_text(status.elapsed_s)),
        *([] if has_ended else [("Time left", _time_left(status))]),
        *sharing_figures(status, sharing),
    ]
    return (
        '<div class="sparkwright-progress">'
        + _bar("Epoch", epochs_done(status), status.epoch, status.epochs)
        + ("" if has_ended else _bar(word.capitalize(), number, number, status.rounds))
        + f"</div>{figure_list(figures)}{note(status)}"
    )


def note(status: Status) -> str:
    """The note on the figures, as HTML; empty if there is none."""
    return f'<p class="sparkwright-note">{escaped(status.note)}</p>' if status.note else ""


def sharing_figures(status: Status, sharing: Sharing | None) -> list[tuple[str, str]]:
    """Figures of gradient sharing: finished and planned minibatches, and bytes sent."""
    if sharing is None:
        return []
    done = count_text(sum(worker.steps for worker in status.workers))
    planned = sharing.planned(status)
    return [
        ("Minibatches", f"{done} of {count_text(planned)}" if planned else done),
        ("Sent", bytes_text(sum(worker.sent_bytes for worker in status.workers))),
    ]


def result_figures(
    status: Status,
    loss: float | None,
    sharing: Sharing | None = None,
    *,
    seconds: float | None = None,  # None: that of the status
    start_seconds: float | None = None,  # until the first loss; None: not shown
    loss_name: str = "Loss",
) -> list[tuple[str, str]]:
    """The results of a run as (label, value) pairs."""
    figures = [
        ("Epochs", f"{count_text(status.epoch)} of {count_text(status.epochs)}"),
        (loss_name, loss_text(loss)),
    ]
    if status.validation:
        last = status.validation[-1]
        figures.append(("Validation loss", loss_text(last.loss)))
        figures += [(f"Validation {name}", loss_text(v)) for name, v in last.metrics.items()]
    time_s = status.elapsed_s if seconds is None else seconds
    figures += [
        ("Workers", count_text(len(status.workers))),
        ("Examples/s", rate_text(status.examples_per_s)),
        ("Time", duration_text(time_s)),
    ]
    if start_seconds is not None:
        figures.append(("Start to first loss", duration_text(start_seconds)))
    return [*figures, *sharing_figures(status, sharing)]


def figure_list(figures: Sequence[tuple[str, str]]) -> str:
    """Label and value pairs as a wrapping row."""
    items = "".join(
        f"<div><span>{escaped(label)}</span> <b>{escaped(value)}</b></div>"
        for label, value in figures
    )
    return f'<div class="sparkwright-figures">{items}</div>'


def progress_text(status: Status, mean_loss: float | None, sharing: Sharing | None = None) -> str:
    """The progress in one line of plain text, for screen readers, terminals and notebooks."""
    parts = [STATES.get(status.state, ("", status.state))[1].lower()]
    has_ended = status.state in ENDED
    if status.epoch:
        parts.append(f"epoch {status.epoch} of {status.epochs}")
    if status.round and not has_ended:
        word, number = _round(status, sharing)
        parts.append(f"{word} {number}" + (f" of {status.rounds}" if status.rounds else ""))
    if not has_ended and (lost := _lost(status)):
        parts.append(f"{lost} lost")
    if mean_loss is not None:
        parts.append(f"loss {loss_text(mean_loss)}")
    if status.validation:
        parts.append(f"validation loss {loss_text(status.validation[-1].loss)}")
    if status.examples_per_s > 0:
        parts.append(f"{rate_text(status.examples_per_s)} examples/s")
    if has_ended:
        parts.append(f"{duration_text(status.elapsed_s)} in all")
    elif status.remaining_s is not None:
        parts.append(f"about {duration_text(status.remaining_s)} left")
    return "; ".join(parts) + (f". {status.note}" if status.note else "")


def worker_table(workers: Sequence[Worker], sharing: Sharing | None = None) -> str:
    """A table with one row per worker; empty without workers."""
    if not workers:
        return ""
    messages = [] if sharing is None else ["Threshold", "Sparsity", "Sent", "Staleness"]
    heads = ["Worker", "State", "Partition", "Rows", "Steps", "Loss", *messages]
    heads += ["Last message", "Restarts", "Device", "Host"]
    rows = [_worker_row(worker, sharing) for worker in workers]
    text_columns = (1, len(heads) - 2, len(heads) - 1)
    return html_table(heads, rows, label="Workers", text_columns=text_columns)


def lost_workers(status: Status, sharing: Sharing | None = None) -> str:
    """A warning that workers are lost; empty if none is lost."""
    lost = _lost(status)
    if not lost or status.state in ENDED:
        return ""
    several = " and " in lost
    what = "Waiting for replacements." if several else "Waiting for a replacement."
    if sharing is not None:
        whose = "Their minibatches are" if several else "Its minibatches are"
        what += f" The other workers continue. {whose} trained once the data is back."
    return (
        '<div class="sparkwright-alert sparkwright-is-warning" role="status">'
        f'<strong><span aria-hidden="true">⚠</span> {escaped(lost.capitalize())} '
        f"{'are' if several else 'is'} lost.</strong> {what}</div>"
    )


def not_finite_banner(found: NotFinite | None) -> str:
    """A warning that the loss became nan or infinite; empty if `found` is None."""
    if found is None:
        return ""
    more = f" {count_text(found.count - 1)} more since." if found.count > 1 else ""
    return (
        '<div class="sparkwright-alert sparkwright-is-warning" role="alert">'
        '<strong><span aria-hidden="true">⚠</span> Warning: the loss is not finite.</strong> '
        f"Worker {found.worker} reported {loss_text(found.value)} at step "
        f"{count_text(found.step)}.{more} The curve has a gap there. Try a lower learning rate or "
        "gradient clipping, and check the data for nan.</div>"
    )


def failure(status: Status) -> str:
    """An error box with the worker's traceback in a fold; empty if the run has not failed."""
    if status.state != "failed":
        return ""
    return alert(
        "Training failed.",
        status.message,
        status.error,
        "Traceback of the worker",
        where=users_code(status.error or ""),
    )


def alert(
    what: str, sentence: str, details: str | None, details_title: str, *, where: str = ""
) -> str:
    """An error box: title, sentence, location in the user's code, and details in a fold."""
    fold = ""
    if where:
        fold = f'<div>In your code:</div><pre tabindex="0">{escaped(where)}</pre>'
    if details:
        fold += (
            f"<details><summary>{escaped(details_title)}</summary>"
            f'<pre tabindex="0">{escaped(plain(details).strip())}</pre></details>'
        )
    return (
        '<div class="sparkwright-alert sparkwright-is-error" role="alert">'
        f'<strong><span aria-hidden="true">✕</span> {escaped(what)}</strong> '
        f"{escaped(sentence)}{fold}</div>"
    )


def _time_left(status: Status) -> str:
    return "—" if status.remaining_s is None else f"about {duration_text(status.remaining_s)}"


def epochs_done(status: Status) -> float:
    """Finished epochs plus the fraction of the current one."""
    if status.state == "done":
        return status.epoch  # a callback may have ended training early
    part = status.round / status.rounds if status.rounds else 0.0
    return max(0.0, status.epoch - 1 + min(part, 1.0))


def _round(status: Status, sharing: Sharing | None) -> tuple[str, int]:
    """The name and number of the current round."""
    if sharing is None:
        return "round", status.round
    # A worker that took over minibatches has done more than its own.
    return "minibatch", min(status.round, status.rounds or status.round)


def _lost(status: Status) -> str:
    """For example `worker 1` or `workers 0, 2 and 5`; empty if none is lost."""
    numbers = [str(worker.worker) for worker in status.workers if worker.state == "lost"]
    if len(numbers) < 2:
        return f"worker {numbers[0]}" if numbers else ""
    return f"workers {', '.join(numbers[:-1])} and {numbers[-1]}"


def _bar(label: str, value: float, number: int, total: int) -> str:
    if total <= 0:
        return ""
    text = f"{count_text(number)} of {count_text(total)}"
    return (
        f'<div class="sparkwright-bar"><span>{label} {text}</span>'
        f'<progress aria-label="{label}" max="{total}" value="{min(value, total):.6g}">{text}'
        "</progress></div>"
    )


def _worker_row(worker: Worker, sharing: Sharing | None) -> list[object]:
    icon, word = _WORKER_STATES.get(worker.state, ("?", worker.state))
    if worker.state == "starting" and worker.restarts:
        word = "restarting"
    is_idle = worker.state in ("waiting", "done", "stopped")
    return [
        worker.worker,
        Markup(f'<span aria-hidden="true">{icon}</span> {escaped(word)}'),
        worker.partition,
        count_text(worker.rows),
        count_text(worker.steps),
        loss_text(worker.loss),
        *([] if sharing is None else _message_cells(worker)),
        "—" if is_idle else ago_text(worker.last_heard_s),
        count_text(worker.restarts),
        worker.device or "—",
        f"{worker.host}, process {worker.pid}" if worker.pid else worker.host,
    ]


def _message_cells(worker: Worker) -> list[str]:
    return [
        "—" if worker.threshold is None else f"{worker.threshold:.3g}",
        percent_text(worker.sparsity),
        bytes_text(worker.sent_bytes),
        "—" if worker.staleness is None else count_text(worker.staleness),
    ]
