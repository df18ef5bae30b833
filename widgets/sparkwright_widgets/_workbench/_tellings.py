"""What each part of the workbench is to know of the others. Pure."""

from typing import Any

from sparkwright import Experiment, SharedTrainingMaster

from ._state import BenchState, Trained

Telling = dict[tuple[str, str], Any]


def tellings(state: BenchState, *, seen: dict[str, Any] | None, problem: str | None) -> Telling:
    """(step, what) -> value: arguments where `what` is a method of the part, else the attribute.

    Args:
        state: where the workbench stands.
        seen: what the step Data has seen of the examples; None: it was not made yet.
        problem: why no run can begin; None: one can.
    """
    master = state.experiment.master
    kind = "sharing" if isinstance(master, SharedTrainingMaster) else "averaging"
    work = {"workers": state.workers, "batch_size": master.batch_size_per_worker}
    hand = state.in_hand
    network = None if hand is None else hand.network
    found: Telling = {
        ("data", "set_spark"): {"spark": state.spark},
        ("network", "set_context"): {**work, "master": kind},
        ("master", "set_context"): {
            "rows": state.counts or None,
            "network": state.experiment.network,
            "slots": state.workers,
        },
        ("partitions", "mode"): master.repartition,
        ("partitions", "strategy"): master.repartition_strategy,
        ("partitions", "set_context"): {**work, "kind": kind},
        ("partitions", "data"): state.data.get("train"),
        ("train", "set_spark"): {"spark": state.spark},
        ("train", "set_ready"): {"reason": problem},
        ("train", "set_weights"): {"told": _weights(hand, state)},
        ("train", "set_validation"): {"told": _validation(state.experiment)},
        ("evaluate", "set_context"): {"network": network, "data": state.parts_to_evaluate},
        ("models", "network"): network,
        ("models", "metrics"): state.metrics,
    }
    return found if seen is None else {**found, ("network", "set_data"): seen}


def _validation(experiment: Experiment) -> str:
    if experiment.validate and experiment.validation is None:
        part = experiment.validate_on
        return f"Validation: none. The step Data keeps no share of the data for the {part} part."
    return experiment.note


def _weights(hand: Trained | None, state: BenchState) -> str | None:
    if hand is None:
        return None
    differs = hand.spec is not None and hand.spec != state.experiment.network
    return f"{hand.told}{', whose layers are not those of the step Network' if differs else ''}"
