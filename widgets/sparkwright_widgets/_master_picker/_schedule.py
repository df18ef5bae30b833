"""A plan as a small picture: one round, and what each worker does in an epoch. Pure."""

from sparkwright.masters import Prospect
from sparkwright_widgets._format import count_text, counted, escaped

LANES = 8  # workers drawn one by one
_MOST_ROUNDS = 40  # drawn as separate bars


def schedule_html(found: Prospect) -> str:
    """Bars of a round and of an epoch; empty if nothing is known of the data and the step."""
    bars = _round(found)
    if found.rows_known and any(found.plan.minibatches):
        bars += _epoch(found)
    return f'<div class="sparkwright-schedule">{bars}</div>' if bars else ""


def _round(found: Prospect) -> str:
    """Minibatches, then what is exchanged after them, in proportion to their times."""
    if found.step_s is None or found.exchange_s is None:
        return ""
    count, what = found.minibatches_per_exchange, "sharing" if _is_sharing(found) else "averaging"
    compute_s = count * found.step_s
    share = 100 * compute_s / (compute_s + found.exchange_s)
    title = "One message" if _is_sharing(found) else "One round"
    minibatches = counted(count, "minibatch", "minibatches")
    text = f"{title}: {minibatches} {short_time(compute_s)}, {what} {short_time(found.exchange_s)}"
    return f"<p>{escaped(text)}</p>" + _track(
        f'<i style="width:{share:.2f}%;{_cuts(count)}"></i>'
        f'<i class="sparkwright-exchange" style="width:{100 - share:.2f}%"></i>'
    )


def _epoch(found: Prospect) -> str:
    plan = found.plan
    minibatches = plan.minibatches
    longest, every = max(minibatches), found.minibatches_per_exchange
    lanes: list[str] = []
    for worker, count in list(enumerate(minibatches))[:LANES]:
        rounds = -(-count // every)
        # With gradient sharing, messages are too many to be told apart.
        cuts = "" if _is_sharing(found) or not count else _cuts(rounds, 100 * every / count)
        bar = _track(f'<i style="width:{100 * count / longest:.2f}%;{cuts}"></i>')
        text = count_text(count) if count else "no data"
        lanes.append(
            f'<div class="sparkwright-lane"><span>Worker {worker}</span>{bar}'
            f"<span>{text}</span></div>"
        )
    left = len(minibatches) - LANES
    more = f"<p>{count_text(left)} more workers are not drawn.</p>" if left > 0 else ""
    what = "one message each" if _is_sharing(found) else counted(found.exchanges, "round")
    return f"<p>One epoch, {what}; minibatches of each worker:</p>{''.join(lanes)}{more}"


def _track(inside: str) -> str:
    return f'<span class="sparkwright-track" aria-hidden="true">{inside}</span>'


def _cuts(count: int, percent: float = 0.0) -> str:
    """Style of lines between `count` pieces, each of so many percent; default: equal ones."""
    if not 1 < count <= _MOST_ROUNDS:
        return ""
    percent = percent or 100 / count
    cut = f"calc({percent:.3f}% - 1.5px)"
    return (
        f"background-image:repeating-linear-gradient(to right,transparent 0 {cut},"
        f"var(--jp-layout-color1,Canvas) {cut} {percent:.3f}%)"
    )


def _is_sharing(found: Prospect) -> bool:
    return found.plan.kind == "sharing"


def short_time(seconds: float) -> str:
    """A time of a plan, to three digits."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"
