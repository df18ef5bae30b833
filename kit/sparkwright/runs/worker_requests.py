"""The requests that the tasks of a run send to trainers."""

from dataclasses import replace
from typing import Any

from sparkwright.masters import Histograms, SharedTrainingMaster
from sparkwright.masters.training_master import TrainingMaster
from sparkwright.partitions import DefaultRepartitioner
from sparkwright.workers.examples import Earlier
from sparkwright.workers.requests import TrainRequest, WorkerSettings

from .begin import RunBeginning
from .callbacks import DriverCallbacks
from .engine import Launcher


def train_request(
    beginning: RunBeginning,
    launcher: Launcher,
    *,
    rows: tuple[int, ...],
    earlier: Earlier | None,
    secret: bytes,
    port: int,
) -> Any:
    """Return a template of the request to train, which `fill_in` completes."""
    master = beginning.master
    settings = settings_of(
        master,
        epochs=beginning.epochs,
        callbacks=beginning.callbacks,
        histograms=beginning.histograms,
    )
    return TrainRequest(
        definition=beginning.definition,
        xla=master.xla,
        run=beginning.id,
        controller=(launcher.advertised_host, port),
        secret=secret,
        listen_host=launcher.worker_host,
        ports=master.mesh.ports,
        shard="",
        validation="",
        consume=launcher.consume,
        settings=replace(settings, rows=rows, earlier=earlier),
        stream=launcher.stream,
        shards=launcher.workers,
    )


def settings_of(
    master: TrainingMaster,
    *,
    epochs: int,
    callbacks: DriverCallbacks | None = None,
    histograms: Histograms | None = None,
) -> Any:
    """Return a template of the workers' settings, which `fill_in` completes."""
    assert master.seed is not None  # set by `seeded`
    if isinstance(master, SharedTrainingMaster):  # workers do not need the user's repartitioner
        master = replace(master, repartitioner=DefaultRepartitioner())
    settings = WorkerSettings(master=master, epochs=epochs, histograms=histograms)
    if callbacks is None or not callbacks.given:
        return settings
    return replace(settings, callbacks=True, callback_frequency=callbacks.frequency)


def fill_in(template: Any, *, worker: int, attempt: int, shard: str, validation: str) -> Any:
    """Complete `template` for one worker."""
    settings = replace(template.settings, worker=worker, attempt=attempt)
    return replace(template, settings=settings, shard=shard, validation=validation)
