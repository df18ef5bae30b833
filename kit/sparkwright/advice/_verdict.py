"""Whether more workers pay, and what to change, in words; pure."""

from typing import TYPE_CHECKING, Literal

from sparkwright.timeline.summary import seconds_text, size_text

if TYPE_CHECKING:
    from ._advice import Advice

Pays = Literal["well", "partly", "hardly", "unknown"]

# Deeplearning4j's rule of thumb for one minibatch.
_WELL_FROM_S, _HARDLY_UP_TO_S = 0.1, 1e-3
_LITTLE_GAIN, _MUCH_LOST = 1.2, 0.7


def pays(advice: "Advice") -> Pays:
    """Return whether more workers help, by the time of a minibatch and the cost of exchanges."""
    step_s, gain = advice.load.step_s, advice.speed_up
    if advice.workers == 1:
        return "hardly"
    if step_s is None or not sum(advice.plan.rows):
        return "unknown"
    if step_s <= _HARDLY_UP_TO_S or (gain is not None and gain < _LITTLE_GAIN):
        return "hardly"
    efficient = gain is None or gain >= _MUCH_LOST * advice.workers
    return "well" if step_s >= _WELL_FROM_S and efficient else "partly"


def verdict(advice: "Advice") -> str:
    """Return the conclusion in one sentence, with its figures."""
    step_s, exchange_s, gain = advice.load.step_s, advice.exchange_s, advice.speed_up
    if not sum(advice.plan.rows):
        return "No worker has data: there is nothing to train."
    if advice.workers == 1:
        return "One worker exchanges nothing and gains nothing over one machine."
    if step_s is None:
        return _open_verdict(advice)
    if exchange_s is None or gain is None:
        return f"A minibatch takes {seconds_text(step_s)}; {_rule(advice, step_s)}."
    count = advice.minibatches_per_exchange
    training = f"{_minibatches_text(count)} of {seconds_text(step_s)}"
    if count > 1:
        training += f" take {seconds_text(count * step_s)}"
    return (
        f"{training}, {_exchange_text(advice)} about {seconds_text(exchange_s)}: "
        f"{advice.workers} workers are at best {gain:.1f} times as fast as one; "
        f"{_rule(advice, step_s)}."
    )


def reason(advice: "Advice") -> str:
    """Return the recommendation in one or two sentences."""
    if advice.memory is not None and advice.memory.problem:
        return advice.memory.problem
    if advice.workers == 1:
        return "Keep the settings: one worker exchanges nothing."
    if not advice.alternatives:
        return "Give a network and `step_s`, the time of a minibatch, for a recommendation."
    first, best, target = advice.alternatives[0], advice.best, advice.target
    if not advice.reaches_target:
        what = f"`{best.settings}` is best" if best.settings else "the given settings are best"
        return (
            f"No setting reaches {target:.0%}; {what}, with {best.efficiency:.0%}. "
            "Larger minibatches, fewer workers or a faster network help more."
        )
    if not best.settings:
        return f"Keep the settings: workers train {best.efficiency:.0%} of the time."
    return (
        f"Set `{best.settings}`: workers train {best.efficiency:.0%} of the time instead of "
        f"{first.efficiency:.0%}. It is the safest setting that reaches {target:.0%}."
    )


def _rule(advice: "Advice", step_s: float) -> str:
    """Apply Deeplearning4j's rule of thumb, unless another cost dominates."""
    if step_s <= _HARDLY_UP_TO_S:
        return "with minibatches of 1 ms or less, more workers hardly help"
    gain, even = advice.speed_up, advice.even_speed_up
    if gain is not None and even is not None:
        lost = even >= _LITTLE_GAIN > gain if advice.pays == "hardly" else gain < _MUCH_LOST * even
        if lost:
            return f"the rows are uneven; balanced rows would make it {even:.1f} times"
    if advice.pays == "hardly":
        return "exchanges cost more than additional workers gain"
    if step_s < _WELL_FROM_S:
        return "minibatches of about 10 ms scale less than in proportion"
    if advice.pays == "well":
        return "minibatches of 100 ms or more scale well"
    return "exchanges take much of the time"


def _open_verdict(advice: "Advice") -> str:
    wanted_s, exchange_s = advice.worthwhile_step_s, advice.exchange_s
    if wanted_s is None or exchange_s is None:
        return "Whether more workers pay off depends on the time of a minibatch: measure it."
    count = advice.minibatches_per_exchange
    often = "" if advice.plan.kind == "sharing" else f" every {_minibatches_text(count)}"
    return (
        f"More workers pay off if one minibatch takes {seconds_text(wanted_s)} or more: "
        f"{_exchange_text(advice)}{often} takes about {seconds_text(exchange_s)}, which is "
        "then a tenth of the time."
    )


def _exchange_text(advice: "Advice") -> str:
    if advice.plan.kind == "sharing":
        return "a message"
    return f"an averaging of {size_text(advice.load.averaged_bytes(advice.given))}"


def _minibatches_text(count: int) -> str:
    return "1 minibatch" if count == 1 else f"{count:,} minibatches"
