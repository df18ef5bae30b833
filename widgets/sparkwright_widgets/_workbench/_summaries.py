"""Summarize each step of an experiment in one line. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.data import DataSource
from sparkwright.masters import SharedTrainingMaster
from sparkwright.masters.plan import by_epoch
from sparkwright.networks import NetworkSpec, analysis_now
from sparkwright_widgets._contract import ENDED, Status
from sparkwright_widgets._format import count_text, counted, loss_text

from ._section import SectionState
from ._state import BenchState, Trained

Summary = tuple[SectionState, str]


def of_steps(
    state: BenchState,
    *,
    problems: Mapping[str, str],
    problem: str | None,
    is_starting: bool,
    models_url: str,
    models: int,
    runs: int | None,
) -> dict[str, Summary]:
    """State and summary of every step; a problem takes precedence."""
    experiment, master, run = state.experiment, state.experiment.master, state.last
    found: dict[str, Summary] = {
        "data": data_summary(experiment.data, state.rows if state.is_loaded else {}),
        "network": network_summary(experiment.network),
        "master": master_summary(master, parallel=experiment.parallel),
        "partitions": partition_summary(
            state.counts if state.is_loaded else (),
            state.workers,
            master.repartition,
            master.repartition_strategy,
        ),
        "train": ("running", "starting")
        if is_starting
        else run_summary(
            None if run is None else run.run.status,
            problem,
            experiment.epochs,
            wait=analysis_now(experiment.network).is_pending and not problems,
        ),
        "evaluate": evaluation_summary(
            state.current, sum(each.of is state.current for each in state.measured)
        ),
        "models": models_summary(models_url, state.current, models),
        "runs": ("ok", "runs of all sessions" if runs is None else f"{count_text(runs)} stored"),
        "file": ("ok", "all settings as YAML"),
    }
    for name, sentence in problems.items():
        found[name] = ("problem", sentence)
    return found


def figures(result: Any) -> dict[str, float]:
    """The figures of an evaluation by name."""
    found: dict[str, float] = {}
    for evaluation in result.evaluations:
        found.update(evaluation.headline())
    return found


def data_summary(source: DataSource, rows: Mapping[str, int]) -> Summary:
    """The data source, and the number of examples of each loaded part."""
    if source.problem is not None:
        return "problem", source.problem
    name = source.url if source.info.needs_url else source.info.title.partition(" (")[0]
    if not rows:
        return "todo", f"{name}, not loaded yet"
    parts = ", ".join(f"{count_text(count)} {part}" for part, count in rows.items())
    return "ok", f"{name}: {parts} examples"


def network_summary(spec: NetworkSpec) -> Summary:
    """The size of the network, or its problem."""
    analysis = analysis_now(spec)
    if analysis.is_pending:
        return "todo", f"{spec.name}; {analysis.reason}"
    if analysis.reason is not None:
        return "problem", analysis.reason
    layers = sum(row.enabled for row in analysis.rows)
    return "ok", f"{spec.name}: {layers} layers, {count_text(analysis.parameters)} parameters"


def master_summary(master: Any, *, parallel: bool) -> Summary:
    if isinstance(master, SharedTrainingMaster):
        how = "gradient sharing"
    else:
        (_, every), *changes = by_epoch(master.averaging_frequency).items()
        how = f"parameter averaging every {count_text(every)} minibatches"
        how += "".join(f", from epoch {first} every {count_text(n)}" for first, n in changes)
    where = ", processes on this machine" if parallel else ""
    return "ok", f"{how}, batch size {count_text(master.batch_size_per_worker)}{where}"


def partition_summary(counts: Sequence[int], workers: int, mode: str, strategy: str) -> Summary:
    """The partitions of the training data, and how they are repartitioned."""
    how = {"never": "not repartitioned", "always": f"{strategy.replace('_', ' ')} repartition"}
    plan = how.get(mode, "repartitioned if the numbers differ")
    if not counts:
        return "todo", f"{plan} (data not loaded yet)"
    mean = sum(counts) / len(counts)
    skew = max(counts) / mean if mean else 1.0
    partitions = counted(len(counts), "partition")
    return "ok", (f"{partitions} for {workers} workers, skew (largest / mean) {skew:.2f}; {plan}")


def run_summary(status: Status | None, reason: str | None, epochs: int, *, wait: bool) -> Summary:
    """The state of the last run, or the `reason` why no run can start; `wait`: for now."""
    if status is not None and status.state not in ENDED:
        return "running", f"epoch {status.epoch} of {status.epochs}"
    if reason is not None:
        return ("todo" if wait else "problem"), reason
    if status is None:
        return "todo", counted(epochs, "epoch")
    if status.state == "failed":
        return "problem", status.message
    text = f"{status.state} after epoch {status.epoch} of {status.epochs}"
    if status.validation:
        text += f", validation loss {loss_text(status.validation[-1].loss)}"
    return "ok", text


def evaluation_summary(hand: Trained | None, count: int) -> Summary:
    """The current network and the number of evaluations."""
    if hand is None:
        return "todo", "needs a trained or loaded network"
    done = f"{count} evaluated; " if count else ""
    return ("ok" if count else "todo"), f"{done}network: {hand.origin}"


def models_summary(url: str, hand: Trained | None, count: int) -> Summary:
    """The folder, its number of models, and the network that can be saved."""
    there = f"{count_text(count)} in {url}" if count else f"the folder is {url}"
    if hand is None:
        return ("ok" if count else "todo"), f"no network to save yet; {there}"
    return ("ok" if count else "todo"), f"{there}; the network of {hand.origin} can be saved"
