"""Draw a plan as bars: one round, and one epoch of each worker. Pure."""

from sparkwright.advice import Advice
from sparkwright_widgets._format import count_text, counted, escaped

LANES = 8  # maximum number of workers drawn
_MOST_ROUNDS = 40  # drawn as separate bars


def schedule_html(found: Advice) -> str:
    """Bars of a round and of an epoch; empty if data and step time are unknown."""
    bars = _round(found)
    if found.rows_known and any(found.plan.minibatches):
        bars += _epoch(found)
    return f'<div class="sparkwright-schedule">{bars}</div>' if bars else ""


def _round(found: Advice) -> str:
    """Minibatches and the exchange after them, with widths in proportion to their times."""
    step_s = found.load.step_s
    if step_s is None or found.exchange_s is None:
        return ""
    count, what = found.minibatches_per_exchange, "sharing" if _is_sharing(found) else "averaging"
    compute_s = count * step_s
    share = 100 * compute_s / (compute_s + found.exchange_s)
    title = "One message" if _is_sharing(found) else "One round"
    minibatches = counted(count, "minibatch", "minibatches")
    text = f"{title}: {minibatches} {short_time(compute_s)}, {what} {short_time(found.exchange_s)}"
    return f"<p>{escaped(text)}</p>" + _track(
        f'<i style="width:{share:.2f}%;{_cuts(count)}"></i>'
        f'<i class="sparkwright-exchange" style="width:{100 - share:.2f}%"></i>'
    )


def _epoch(found: Advice) -> str:
    plan = found.plan
    minibatches = plan.minibatches
    longest, every = max(minibatches), found.minibatches_per_exchange
    lanes: list[str] = []
    for worker, count in list(enumerate(minibatches))[:LANES]:
        rounds = -(-count // every)
        # With gradient sharing, there are too many messages to draw each one.
        cuts = "" if _is_sharing(found) or not count else _cuts(rounds, 100 * every / count)
        bar = _track(f'<i style="width:{100 * count / longest:.2f}%;{cuts}"></i>')
        text = count_text(count) if count else "no data"
        lanes.append(
            f'<div class="sparkwright-lane"><span>Worker {worker}</span>{bar}'
            f"<span>{text}</span></div>"
        )
    left = len(minibatches) - LANES
    more = f"<p>{count_text(left)} more workers are not drawn.</p>" if left > 0 else ""
    what = "" if _is_sharing(found) else f" ({counted(found.exchanges, 'round')})"
    return f"<p>One epoch{what}: minibatches of each worker</p>{''.join(lanes)}{more}"


def _track(inside: str) -> str:
    return f'<span class="sparkwright-track" aria-hidden="true">{inside}</span>'


def _cuts(count: int, percent: float = 0.0) -> str:
    """CSS of lines between `count` pieces of `percent` width each; default 0: equal pieces."""
    if not 1 < count <= _MOST_ROUNDS:
        return ""
    percent = percent or 100 / count
    cut = f"calc({percent:.3f}% - 1.5px)"
    return (
        f"background-image:repeating-linear-gradient(to right,transparent 0 {cut},"
        f"var(--jp-layout-color1,Canvas) {cut} {percent:.3f}%)"
    )


def _is_sharing(found: Advice) -> bool:
    return found.plan.kind == "sharing"


def short_time(seconds: float) -> str:
    """A duration with three significant digits."""
    if seconds < 0.9995:
        return f"{1000 * seconds:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else f"{seconds / 60:.3g} min"
