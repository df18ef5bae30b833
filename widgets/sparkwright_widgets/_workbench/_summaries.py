"""Each step of an experiment in one line. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.data import DataSource
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.plan import by_epoch
from sparkwright.networks import NetworkSpec, analysis_now
from sparkwright_widgets._contract import ENDED, Status
from sparkwright_widgets._format import count_text, loss_text

from ._section import SectionState
from ._state import Trained

Summary = tuple[SectionState, str]


def data_summary(source: DataSource, rows: Mapping[str, int]) -> Summary:
    """Which data, and how many examples each part of it has once it is loaded."""
    if source.problem is not None:
        return "problem", source.problem
    name = source.url or source.format
    if not rows:
        return "todo", f"{name}, not loaded yet"
    parts = ", ".join(f"{count_text(count)} {part}" for part, count in rows.items())
    return "ok", f"{name}: {parts} examples"


def network_summary(spec: NetworkSpec) -> Summary:
    """How large the network is, or what is wrong with it."""
    analysis = analysis_now(spec)
    if analysis.is_pending:
        return "todo", f"{spec.name}; {analysis.reason}"
    if analysis.reason is not None:
        return "problem", analysis.reason
    layers = sum(row.enabled for row in analysis.rows)
    return "ok", f"{spec.name}: {layers} layers, {count_text(analysis.parameters)} parameters"


def master_summary(master: Any, *, parallel: bool) -> Summary:
    """How it is trained."""
    if isinstance(master, SharedTrainingMaster):
        how = "gradient sharing"
    else:
        (_, every), *changes = by_epoch(master.averaging_frequency).items()
        how = f"parameter averaging every {count_text(every)} minibatches"
        how += "".join(f", from epoch {first} every {count_text(n)}" for first, n in changes)
    where = ", processes of this machine" if parallel else ""
    return "ok", f"{how}, minibatches of {count_text(master.batch_size_per_worker)}{where}"


def partition_summary(counts: Sequence[int], workers: int, mode: str, strategy: str) -> Summary:
    """How the training data lies, and what becomes of it."""
    how = {"never": "left as they are", "always": f"{strategy.replace('_', ' ')} repartition"}
    plan = how.get(mode, "repartitioned if their number is another")
    if not counts:
        return "todo", f"{plan}; what that does can be seen once the data is loaded"
    mean = sum(counts) / len(counts)
    skew = max(counts) / mean if mean else 1.0
    partitions = "1 partition" if len(counts) == 1 else f"{count_text(len(counts))} partitions"
    return "ok", (f"{partitions} for {workers} workers, fullest over mean {skew:.2f}; {plan}")


def run_summary(status: Status | None, reason: str | None, epochs: int) -> Summary:
    """What the last run does or did, or why none can begin."""
    if status is None:
        return ("problem", reason) if reason is not None else ("todo", f"{epochs} epochs")
    if status.state not in ENDED:
        return "running", f"epoch {status.epoch} of {status.epochs}"
    if status.state == "failed":
        return "problem", status.message
    text = f"{status.state} after epoch {status.epoch} of {status.epochs}"
    if status.validation:
        text += f", validation loss {loss_text(status.validation[-1].loss)}"
    return "ok", text


def evaluation_summary(hand: Trained | None, count: int) -> Summary:
    """Whether there is something to evaluate, and how much was."""
    if hand is None:
        return "todo", "once a network is trained or loaded"
    done = f"{count} evaluated; " if count else ""
    return ("ok" if count else "todo"), f"{done}the network of {hand.told} is in hand"


def models_summary(url: str, hand: Trained | None, count: int) -> Summary:
    """Where models are kept, how many are known there, and what can be saved."""
    there = f"{count_text(count)} in {url}" if count else f"the folder is {url}"
    if hand is None:
        return ("ok" if count else "todo"), f"nothing to save yet; {there}"
    return ("ok" if count else "todo"), f"{there}; the network of {hand.told} can be saved"
