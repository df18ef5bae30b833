"""What is wrong with the end of a run, from what was seen of it; pure.

The network of these runs counts: see `counting`. So its delivered parameters say which examples
they have learned from, and how often, whatever the run itself claims.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from tests.chaos.experiments import Experiment

Column = Literal[
    "lost or doubled examples",
    "hangs",
    "averages lost",
    "wrong deliveries",
    "silent failures",
    "runs given up",
    "left behind",
]
COLUMNS = get_args(Column)
# Sums of thirds in float32.
_TOLERANCE = 1e-3
# Minibatches of a worker in a round, at most. Where workers join, rounds are uneven.
_FREQUENCY = 2
# What workers of gradient sharing may keep unsent: of their minibatches, and of an example.
_UNSENT, _UNSENT_OF_EXAMPLE = 2.0, 0.2
# Minibatches of a lost worker that reached the others, and that are done again.
_REDONE = 24


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was seen of a run, and its end."""

    experiment: Experiment  # what was done to it
    state: str  # of `run.status` at the end; "hung" if there was none in time
    error: str  # the text of what `run.wait` raised; empty: nothing
    struck: bool  # whether the fault came before the end
    stop_asked: bool  # whether `run.stop` was called
    losses: int  # workers that were reported lost, in all
    most_averagings: int  # the most that `run.status` ever showed
    averagings: int  # that it shows at the end
    restarted: bool  # whether it went back to nearly none
    warnings: Sequence[str]  # of the run
    rounds: Sequence[Sequence[int]]  # minibatches of each worker in each averaging, by the history
    untold: int  # rows of the history without a loss: their worker died before it could tell
    examples: int  # in all rows of the history
    epochs: int  # that the run was to have
    counts: NDArray[np.float64]  # delivered: the minibatches, then how often each example was used
    workers: int
    seconds: float  # from the start to the end
    text: str = ""  # what else to report


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What is wrong: a remark for each column that it belongs to."""

    evidence: Evidence
    remarks: dict[Column, str] = field(default_factory=dict[Column, str])

    def __str__(self):
        """The experiment, and what is wrong."""
        seen = self.evidence
        wrong = "; ".join(f"{name}: {text}" for name, text in self.remarks.items()) or "all right"
        struck = "" if seen.struck else ", the fault came too late"
        return (
            f"{seen.experiment}: {seen.state} after {seen.seconds:.1f} s{struck}; {wrong}"
            + (f" [{seen.error[:500]}]" if seen.error else "")
            + f" [{seen.text}]"
        )


def claimed(rounds, *, workers, sharing, losses):
    """The least and the most that the parameter that counts minibatches can be after these rounds.

    Sharing adds the workers' minibatches up. An averaging weighs each worker's n with n. After
    losses the history does not say who averaged with whom, unless all took part in all rounds:
    what an absent worker owed is logged in the epoch that it belongs to.

    Example:
        >>> claimed([(2, 2), (2, 2)], workers=2, sharing=False, losses=1)
        (4.0, 4.0)
        >>> claimed([(2, 2), (2,), (1, 2)], workers=2, sharing=False, losses=1)
        (4.5, 9.0)
        >>> claimed([(2,), (2, 2), (1, 1)], workers=2, sharing=False, losses=0)
        (5.0, 5.0)
    """
    total = float(sum(map(sum, rounds)))
    if sharing:
        return total, total
    if losses and not _all_full(rounds, workers):
        return total / workers, total
    averaged = sum(sum(n * n for n in each) / sum(each) for each in rounds)
    return averaged, averaged


def _all_full(rounds, workers):
    """Whether all workers took part in all rounds, with as many minibatches."""
    return all(len(each) == workers and len(set(each)) == 1 for each in rounds)


def judge(seen):
    """Compare what a run delivered with what it claims, and with what it should be."""
    remarks = {}
    if seen.state == "hung":
        return Verdict(evidence=seen, remarks={"hangs": f"no end after {seen.seconds:.0f} s"})
    sharing = seen.experiment.master == "sharing"
    _judge_delivery(seen, remarks, sharing=sharing)
    if seen.restarted and not seen.warnings:
        remarks["silent failures"] = "training began anew from zero without a warning"
    if seen.state == "done":
        _judge_examples(seen, remarks, sharing=sharing)
    elif seen.state == "failed":
        if not seen.error:
            remarks["silent failures"] = "the run failed, and `wait` raised nothing"
        elif seen.most_averagings and not re.search(r"averaging|epoch|minibatch", seen.error):
            remarks["silent failures"] = "the error does not say how far the run came"
        if not seen.experiment.hopeless:
            remarks["runs given up"] = "the run failed, though it could have gone on"
    elif not seen.stop_asked:
        remarks["silent failures"] = f"the run ended as {seen.state!r}, and nobody asked for it"
    return Verdict(evidence=seen, remarks=remarks)


def _judge_delivery(seen, remarks, *, sharing):
    counts = seen.counts
    if not np.isfinite(counts).all():
        remarks["wrong deliveries"] = "the delivered parameters are not finite"
        return
    least, most = claimed(seen.rounds, workers=seen.workers, sharing=sharing, losses=seen.losses)
    found = float(counts[0])
    formed = seen.most_averagings > 0
    if formed and found <= 0:
        remarks["averages lost"] = (
            f"{seen.most_averagings} averagings were reported, and the model has none"
        )
        return
    # If all workers die, what is left is the driver's copy, which is older.
    is_left = seen.experiment.victim != "example" or seen.losses < seen.workers
    if not sharing and is_left and seen.averagings < seen.most_averagings:
        remarks["averages lost"] = (
            f"{seen.most_averagings} averagings were reported, then {seen.averagings}"
        )
    slack = _TOLERANCE * max(1.0, least) + seen.untold
    if sharing:
        slack += _REDONE * seen.losses + _UNSENT * seen.workers
    if not least - slack <= found <= most + slack:
        common = Counter(tuple(each) for each in seen.rounds).most_common(6)
        remarks["wrong deliveries"] = (
            f"the history has minibatches for {least:.3f} to {most:.3f}, the delivered model "
            f"{found:.3f}; rounds of so many on each worker: {common}, {seen.untold} of them untold"
        )


def _judge_examples(seen, remarks, *, sharing):
    each = seen.counts[1:]
    total = seen.epochs * len(each)
    again = sharing and seen.losses > 0
    if seen.examples < total or (seen.examples > total and not again):
        remarks["lost or doubled examples"] = (
            f"the history has {seen.examples} examples instead of {total}"
        )
    if "wrong deliveries" in remarks or "averages lost" in remarks:
        return
    if sharing:
        least, most = seen.epochs - _UNSENT_OF_EXAMPLE, float(seen.epochs)
        if again:  # what a lost worker had not sent yet, and what the others did again
            least, most = least - 2.0 * seen.losses, most + 4.0 * seen.losses
    else:
        least = seen.epochs / seen.workers
        most = least if _all_full(seen.rounds, seen.workers) else float(seen.epochs)
        if seen.experiment.joining:
            least = seen.epochs / (1 + _FREQUENCY * (seen.workers - 1))
    outside = np.flatnonzero((each < least - _TOLERANCE) | (each > most + _TOLERANCE))
    if outside.size:
        remarks["lost or doubled examples"] = (
            f"{outside.size} examples were trained less often than {least:g} times or more often "
            f"than {most:g}, such as number {outside[0]}: {each[outside[0]]:g}"
        )


def table(verdicts):
    """Runs by master and victim, and how many of them have something in each column."""
    groups = {}
    for verdict in verdicts:
        experiment = verdict.evidence.experiment
        groups.setdefault((experiment.master, experiment.victim), []).append(verdict)
    rows = [("master", "victim", "runs", "undisturbed", *COLUMNS)]
    for key, group in [*sorted(groups.items()), (("all", ""), list(verdicts))]:
        found = [sum(name in verdict.remarks for verdict in group) for name in COLUMNS]
        calm = sum(not verdict.evidence.struck for verdict in group)
        rows.append((*key, *map(str, (len(group), calm, *found))))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join("  ".join(map(str.ljust, row, widths)) for row in rows)
