"""Create the session, data and networks of an experiment. No widgets."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from sparkwright import Experiment, SparkNetwork
from sparkwright.cluster.slots import task_slots
from sparkwright.errors import ConfigurationError
from sparkwright.experiments import prepare
from sparkwright.networks import describe_model
from sparkwright.runs import TrainingRun

from ._state import BenchState, Measured, Trained


class Bench:
    """Holds the state of a workbench, and does its long-running work."""

    # `load`, `begin` and `load_network` call Spark: use them on background threads or in cells,
    # never in callbacks.

    def __init__(self, experiment: Experiment, spark: Any | None = None) -> None:
        self._lock = threading.Lock()  # held while the state is replaced
        self._making = (
            threading.RLock()
        )  # held while objects are created, so that each is created once
        self.state = BenchState(
            experiment=experiment, spark=spark, slots=None if spark is None else task_slots(spark)
        )

    def change(self, make: Callable[[BenchState], BenchState]) -> None:
        """Replace the state by `make(state)`; `make` must not block."""
        with self._lock:
            self.state = make(self.state)

    def load(
        self, *, reload: bool = False, tell: Callable[[str], None] = lambda _sentence: None
    ) -> None:
        """Start Spark if needed; load and count the data, again if `reload`."""
        with self._making:
            if self.state.spark is None:
                tell("Starting Spark …")
            spark = self._session()
            source = self.state.experiment.data
            if self.state.source == source and not reload:
                return
            tell("Loading and counting the data …")
            parts = source.load_split(spark)
            counts = {name: tuple(part.partition_counts()) for name, part in parts.items()}
            rows = {name: sum(count) for name, count in counts.items()}
            self.change(
                lambda state: replace(
                    state, source=source, data=parts, rows=rows, counts=counts["train"]
                )
            )

    def begin(self, *, resume: str | None = None, keep_weights: bool = False) -> TrainingRun:
        """Load the data if needed and start training, from the checkpoint at `resume` if given."""
        with self._making:
            experiment = self.state.experiment
            self.load()
            state = self.state
            hand = state.current if keep_weights else None
            prepared = prepare(
                experiment,
                state.spark,
                data=dict(state.data),
                network=None if hand is None else hand.network,
            )
            run = prepared.start(resume=resume, display=False)
            last = Trained(
                network=prepared.network,
                origin=run.name,
                spec=experiment.network if hand is None else hand.spec,
                run=run,
                experiment=experiment,
                data=prepared.data,
            )
            self.change(lambda state: replace(state, last=last, last_taken=False))
            return run

    def take_ended(self) -> None:
        """Make the network of the last run current once the run has ended successfully."""

        def take(state: BenchState) -> BenchState:
            if state.last is None or state.last_taken or not state.last.run.finished:
                return state
            failed = state.last.run.status.state == "failed"
            return replace(state, last_taken=True, current=state.current if failed else state.last)

        self.change(take)

    def load_network(self, url: str) -> SparkNetwork:
        """Load the network at `url`, starting the session if needed."""
        with self._making:
            return SparkNetwork.load(self._session(), url, self.state.experiment.seeded_master)

    def hold(self, network: SparkNetwork, origin: str) -> None:
        """Make a loaded network the current one."""
        try:
            spec = describe_model(network.model)
        except ConfigurationError:
            spec = None
        loaded = Trained(network=network, origin=origin, spec=spec)
        self.change(lambda state: replace(state, current=loaded))

    def note_results(self, results: Mapping[str, Mapping[str, float]]) -> None:
        """Record the figures of results by name; new results belong to the current network."""

        def note(state: BenchState) -> BenchState:
            measured = {each.name: each for each in state.measured if each.name in results}
            hand = state.current
            if hand is not None:
                for name in results.keys() - measured.keys():
                    measured[name] = Measured(name=name, of=hand, figures=results[name])
            return replace(state, measured=tuple(measured.values()))

        self.change(note)

    def _session(self) -> Any:
        if self.state.spark is None:
            spark = self.state.experiment.spark.start()
            slots = task_slots(spark)
            self.change(lambda state: replace(state, spark=spark, slots=slots))
        return self.state.spark
