"""Checkpoints: the state that is written to a URL during training and needed to resume a run.

A checkpoint is one file, `checkpoint-<averagings>.swc`: an archive of `meta.json`, `vector.npy`,
`history/<column>.npy`, `extras/<worker>.bin` and `callbacks.json`; `callbacks/<place>/<name>.bin`
holds weights that a Keras callback remembers. Reading a checkpoint executes no code. After a
failure of the machine the newest file may be damaged; then the previous one is used.
"""

import logging
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sparkwright.errors import ConfigurationError, DataError, SparkwrightError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.options import check_count
from sparkwright.storage.files import is_folder, join, open_to_read, remove, write_atomically
from sparkwright.storage.listing import list_folder

from ._checkpoint_format import Checkpoint as Checkpoint, decode, encode

_log = logging.getLogger(__name__)
_NAME = re.compile(r"checkpoint-([0-9]{8,})\.swc")
_TEMPORARY = re.compile(r"\.checkpoint-([0-9]{8,})\.swc\.[0-9a-f]{8}\.tmp(?:\.old)?")
_OLD_KIND = "ParameterAveragingTrainingMaster"  # the default of settings without a name
# The settings that, besides data and seed, determine the examples of a minibatch.
_DECISIVE = (
    *("batch_size_per_worker", "shuffle", "steps_per_epoch"),
    *("repartition", "repartition_strategy"),
    *("updater", "outer_optimizer"),
)


class CheckpointNotFoundError(SparkwrightError, FileNotFoundError):
    """There is no undamaged checkpoint at a URL."""


def write_checkpoint(folder_url: str, checkpoint: Checkpoint, *, keep: int) -> str:
    """Write `checkpoint` to a folder, then remove the oldest checkpoints beyond `keep`."""
    check_count("keep", keep)
    name = f"checkpoint-{checkpoint.progress.averagings:08d}.swc"
    url = join(folder_url, name)
    with write_atomically(url, durable=True) as file:
        encode(file, checkpoint)
    try:
        _prune(folder_url, checkpoint.progress.averagings, keep)
    except OSError as error:
        _log.warning("old checkpoints could not be removed: %s", error)
    return url


def read_checkpoint(url: str) -> Checkpoint:
    """Read a checkpoint file, or the newest undamaged checkpoint of a folder.

    In a folder, a file that is damaged or has parameters that are not finite is skipped with a
    warning.
    """
    if not is_folder(url):
        try:
            return _read_file(url)
        except FileNotFoundError:
            raise CheckpointNotFoundError(
                f"there must be a checkpoint to go on from. Received: {url}, where there is "
                "nothing. Check the path and the host, or start without a checkpoint."
            ) from None
    damaged = 0
    for _, name in reversed(_numbered(list_folder(url), _NAME)):
        try:
            return _read_file(join(url, name))
        except DataError as error:
            damaged += 1
            _log.warning("skipped a checkpoint: %s", error)
        except FileNotFoundError:
            continue  # the run that writes here has just removed it
    found = f"only damaged ones: {damaged}" if damaged else "none"
    raise CheckpointNotFoundError(
        f"there must be a checkpoint to go on from. Received: {url}, which has {found}. "
        "Give the folder that the run wrote to, or start without a checkpoint."
    )


def check_resumable(
    checkpoint: Checkpoint,
    *,
    master: Mapping[str, Any],
    fingerprint: str,
    rows: Sequence[int],
    epochs: int,
    is_stream: bool = False,
) -> None:
    """Raise if a checkpoint does not match the network, data or settings of minibatches.

    The number of workers may differ if they hold consecutive parts of the data, and epochs are
    whole passes over it.

    A run that has trained all its `epochs` needs a larger number, unless minibatches remain to be
    done. All other settings (mesh, prefetching, XLA, statistics, checkpoints) may differ, as may
    settings that only one of the two masters has. A `seed` of None uses the checkpoint's.
    """
    old = _updated(checkpoint.master)
    differences: list[str] = []
    if fingerprint != checkpoint.fingerprint:
        differences.append("another network, optimizer or loss")
    new, was = _with_data(rows), _with_data(checkpoint.rows)
    is_consecutive = (
        *(each.get("repartition_strategy", "balanced") == "balanced" for each in (master, old)),
        *(each.get("repartition") != "never" for each in (master, old)),
        master.get("steps_per_epoch") is None and not is_stream,
    )
    if len(new) == len(was) and new != was:
        worker = next(w for w, count in enumerate(new) if count != was[w])
        differences.append(
            f"other data or partitioning (worker {worker} has {new[worker]} examples instead of "
            f"{was[worker]})"
        )
    elif sum(new) != sum(was):
        differences.append(f"other data ({sum(new)} examples instead of {sum(was)})")
    elif len(new) != len(was) and not all(is_consecutive):
        differences.append(
            f"{len(new)} workers instead of {len(was)}, which is possible only with "
            'repartition_strategy="balanced", repartition="always" or '
            '"num_partitions_workers_differs", no steps_per_epoch, and data without TfData'
        )
    if master.get("name", _OLD_KIND) != old.get("name", _OLD_KIND):
        differences.append(f"a {master.get('name')} instead of a {old.get('name', _OLD_KIND)}")
    differences += [
        f"{name}={master[name]!r} instead of {old[name]!r}"
        for name in _DECISIVE
        if name in master and name in old and master[name] != old[name]
    ]
    if master.get("seed") is not None and master["seed"] != old.get("seed"):
        differences.append(f"seed={master['seed']} instead of {old.get('seed')}")
    if differences:
        raise ConfigurationError(
            "a run goes on only with the network, the data and the minibatches of its checkpoint "
            f"(run {checkpoint.run}). Received: {'; '.join(differences)}. Change these back, or "
            "start without the checkpoint."
        )
    done = checkpoint.progress.epoch
    if epochs <= done and not checkpoint.progress.to_dict().get("todo"):
        count = f"{done} epoch{'s' if done > 1 else ''}"
        raise ConfigurationError(
            f"the checkpointed run has already trained {'all ' if epochs == done > 1 else ''}"
            f"{count}. Received: epochs={epochs}. Give more than {done}."
        )


def _with_data(rows: Sequence[int]) -> tuple[int, ...]:
    """Return the examples of the workers up to the last one that has any."""
    return tuple(rows[: max((w + 1 for w, count in enumerate(rows) if count), default=0)])


def _updated(settings: dict[str, Any]) -> dict[str, Any]:
    """Convert the settings in a checkpoint to the current format."""
    if settings.get("name", _OLD_KIND) != _OLD_KIND:
        return settings
    return ParameterAveragingTrainingMaster.from_dict(settings).to_dict()


class CheckpointWriter:
    """Writes checkpoints on a separate thread; failures are logged, and the run continues.

    At most one checkpoint waits: a newer one replaces an older one whose write has not started.
    """

    def __init__(
        self, folder_url: str, *, keep: int, wrote: Callable[[float, float], object]
    ) -> None:
        """Set the folder; `wrote` gets the monotonic clock before and after each attempt."""
        self._folder_url, self._keep, self._wrote = folder_url, keep, wrote
        self._changed = threading.Condition()
        self._waiting: Checkpoint | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def submit(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint asynchronously; its arrays must not change any more."""
        with self._changed:
            if self._closed:  # the run is over
                return
            self._waiting = checkpoint
            if self._thread is None:
                name = f"{threading.current_thread().name}-checkpoints"
                self._thread = threading.Thread(target=self._main, name=name, daemon=True)
                self._thread.start()
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Write the waiting checkpoint; warn if that takes longer."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout_s)
            if self._thread.is_alive():
                _log.warning(
                    "the last checkpoint in %s is not written after %g s",
                    *(self._folder_url, timeout_s),
                )

    def _main(self) -> None:
        while (checkpoint := self._next()) is not None:
            self._write(checkpoint)

    def _next(self) -> Checkpoint | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting is not None or self._closed)
            found, self._waiting = self._waiting, None
            return found

    def _write(self, checkpoint: Checkpoint) -> None:
        began_s = time.monotonic()
        try:
            write_checkpoint(self._folder_url, checkpoint, keep=self._keep)
        except Exception as error:  # a failed checkpoint must not end the run
            _log.warning("no checkpoint written to %s: %s", self._folder_url, error)
        self._wrote(began_s, time.monotonic())


def _prune(folder_url: str, written: int, keep: int) -> None:
    names = list_folder(folder_url)
    numbered = _numbered(names, _NAME)
    if later := [name for number, name in numbered if number > written]:
        _log.warning(
            "%s holds %s, which is later than the checkpoint that this run has just written, and "
            "is read first from that folder. Give each run its own folder.",
            *(folder_url, later[-1]),
        )
    old = [name for number, name in numbered if number <= written][:-keep]
    # Temporary files of killed writers: no other writer is still at these numbers.
    left = [name for number, name in _numbered(names, _TEMPORARY) if number <= written]
    for name in (*old, *left):
        try:
            remove(join(folder_url, name))
        except OSError as error:
            _log.warning("could not remove an old checkpoint: %s", error)


def _numbered(names: Sequence[str], pattern: re.Pattern[str]) -> list[tuple[int, str]]:
    found = [match for name in names if (match := pattern.fullmatch(name))]
    return sorted((int(match[1]), match[0]) for match in found)


def _read_file(url: str) -> Checkpoint:
    with open_to_read(url) as file:
        try:
            checkpoint = decode(file)
        except ValueError as error:
            raise DataError(
                f"a checkpoint must be undamaged. Received: {url}: "
                f"{error}. Resume from an earlier one."
            ) from error
    if not np.isfinite(checkpoint.vector).all():
        raise DataError(
            f"a checkpoint's parameters must be finite. Received: {url}, which has NaN or infinite "
            "values. Resume from an earlier one."
        )
    return checkpoint
