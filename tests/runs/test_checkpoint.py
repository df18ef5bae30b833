import io
import itertools
import json
import logging
import math
import threading
import zipfile
from dataclasses import replace

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from tests.cases import cases

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.masters import ParameterAveragingTrainingMaster
from sparkwright.runs import _checkpoint
from sparkwright.runs._callback_state import CallbackState
from sparkwright.runs._checkpoint import (
    Checkpoint,
    CheckpointNotFoundError,
    CheckpointWriter,
    check_resumable,
    read_checkpoint,
    write_checkpoint,
)
from sparkwright.runs._history import History
from sparkwright.storage.archive import read_archive, write_archive
from sparkwright.storage.files import join, open_to_read, read_bytes, write_atomically
from sparkwright.storage.listing import list_folder
from sparkwright.workers.protocol import Progress
from sparkwright.workers.work import Span

_NUMBERS = itertools.count()
NAME_0 = "checkpoint-00000000.swc"


def new_folder():
    return f"memory://checkpoints {next(_NUMBERS)}/of a run"


@pytest.fixture(params=["path", "file", "memory"])
def folder(request, tmp_path):
    places = {"path": str(tmp_path / "a b"), "file": f"file://{tmp_path}/a b"}
    return places.get(request.param) or new_folder()


def checkpoint_at(averagings=0, **fields):
    defaults = {
        "progress": Progress(epoch=2, averagings=averagings),
        "vector": np.linspace(0, 1, 7, dtype=np.float32) + averagings,
        "has_updater": True,
        "master": {**ParameterAveragingTrainingMaster().to_dict(), "seed": 7},
        "fingerprint": "abc",
        "rows": (100, 101),
        "epochs": 5,
        "run": "run-1",
    }
    return Checkpoint(**(defaults | fields))


def assert_same(one, other):
    for name in Checkpoint.__dataclass_fields__.keys() - {"vector", "history", "validation"}:
        assert getattr(one, name) == getattr(other, name), name
    assert list(one.validation) == list(other.validation)
    assert list(one.history) == list(other.history)
    arrays = [(one.vector, other.vector)]
    arrays += [(one.history[name], other.history[name]) for name in one.history]
    for array, same in arrays:
        assert array.dtype == same.dtype
        assert array.tobytes() == same.tobytes()


def numbers_in(folder):
    return [int(name[11:-4]) for name in list_folder(folder)]


def test_checkpoint_round_trips(folder):
    log = History()
    log.append({"worker": np.array([0, 1]), "loss": np.array([2.0, np.nan]), "a/c c": np.ones(2)})
    callbacks = (
        CallbackState(kind="Quiet", values={}),
        CallbackState(
            kind="EarlyStopping",
            values={
                "best": math.inf,
                "wait": 2,
                "low": 1e-310,
                "is_on": True,
                "text": "ü",
                "no": None,
            },
            weights={"best_weights": b"\x00" * 28},
        ),
    )
    whole = checkpoint_at(
        12,
        extras=(b"", b"\x00\x01"),
        history=log.rows(),
        validation=({"epoch": 1, "loss": np.float64(0.5)},),
        callbacks=callbacks,
        written="2025-01-01T00:00:00+00:00",
        versions={"keras": "3"},
    )
    url = write_checkpoint(folder, whole, keep=3)
    assert url == join(folder, "checkpoint-00000012.swc")
    for place in (url, folder):
        found = read_checkpoint(place)
        assert_same(found, whole)
        found.vector[:] = 0  # training goes on in it
    with zipfile.ZipFile(io.BytesIO(read_bytes(url))) as archive:
        assert json.loads(archive.read("meta.json"))["master"]["seed"] == 7  # readable text


@given(
    vector=st.sampled_from([32, 64]).flatmap(
        lambda width: hnp.arrays(
            f"float{width}",
            st.integers(0, 40),
            elements=st.floats(width=width, allow_nan=False, allow_infinity=False),
        )
    ),
    columns=st.integers(0, 9).flatmap(
        lambda length: st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])),
            hnp.arrays(st.sampled_from([np.int32, np.int64, np.float64, np.bool_]), length),
            max_size=4,
        )
    ),
    extras=st.lists(st.binary(max_size=9), max_size=4).map(tuple),
    text=st.text(),
)
def test_any_arrays_and_texts_survive(vector, columns, extras, text):
    whole = checkpoint_at(
        vector=vector, history=columns, extras=extras, rows=(5,) * len(extras), run=text
    )
    assert_same(read_checkpoint(write_checkpoint(new_folder(), whole, keep=1)), whole)


@cases(
    "fields, reason",
    ({"vector": np.zeros((2, 2), np.float32)}, "vector"),
    ({"vector": np.zeros(2, np.int32)}, "vector"),
    ({"vector": np.zeros(2, ">f4")}, "vector"),
    ({"history": {"loss": np.array([None])}}, "loss"),
    ({"history": {"loss": np.zeros(2), "step": np.zeros(3)}}, "equal lengths"),
    ({"extras": (b"",)}, "1 of 2 workers"),
    ({"progress": Progress(averagings=-1)}, "integers of at least 0"),
)
def test_a_checkpoint_that_could_not_be_read_is_rejected(fields, reason):
    with pytest.raises(DataError, match=reason):
        checkpoint_at(**fields)
    folder = new_folder()
    with pytest.raises(TypeError, match="JSON-serializable"):
        write_checkpoint(folder, checkpoint_at(master={"hooks": object()}), keep=1)
    assert list_folder(folder) == []
    for keep in (0, -1, True, 1.5, None):
        with pytest.raises(ConfigurationError, match="keep"):
            write_checkpoint(folder, checkpoint_at(), keep=keep)


def test_failed_write_keeps_the_existing_file(folder, monkeypatch):
    write_checkpoint(folder, checkpoint_at(1), keep=1)

    def encode_half(file, checkpoint):
        file.write(b"PK half of it")
        raise OSError("the disk is full")

    monkeypatch.setattr(_checkpoint, "encode", encode_half)
    for number in (1, 2):
        with pytest.raises(OSError, match=f"0{number}.swc could not be written: the disk is full"):
            write_checkpoint(folder, checkpoint_at(number), keep=1)
    assert numbers_in(folder) == [1]
    assert_same(read_checkpoint(folder), checkpoint_at(1))


def test_the_newest_are_kept_and_only_files_of_a_killed_writer_are_removed(folder):
    others = ["notes.txt", "checkpoint-1.swc", "checkpoint-00000001.swc.bak", "model.keras"]
    of_another = ".checkpoint-200000000.swc.0a1b2c3d.tmp"  # that writes now
    killed = [".checkpoint-00000004.swc.0a1b2c3d.tmp", ".checkpoint-00000005.swc.0a1b2c3d.tmp.old"]
    for name in (*others, of_another, *killed):
        with write_atomically(join(folder, name)) as file:
            file.write(b"mine")
    for number in (8, 99_999_999, 100_000_000, 100_000_001):
        write_checkpoint(folder, checkpoint_at(number), keep=2)
    kept = ["checkpoint-100000000.swc", "checkpoint-100000001.swc"]
    assert read_checkpoint(folder).progress.averagings == 100_000_001
    assert list_folder(folder) == sorted([*others, of_another, *kept])


def test_later_checkpoints_of_another_run_stay_with_a_warning(folder, caplog):
    write_checkpoint(folder, checkpoint_at(50), keep=1)
    assert not caplog.messages
    for number in (3, 4):
        write_checkpoint(folder, checkpoint_at(number), keep=1)
    assert numbers_in(folder) == [4, 50]
    assert "checkpoint-00000050.swc" in caplog.text


@cases("what", "remove", "list_folder")
def test_files_that_cannot_be_removed_cause_a_warning(monkeypatch, caplog, what):
    folder = new_folder()
    write_checkpoint(folder, checkpoint_at(1), keep=1)

    def refuse(url):
        raise PermissionError(f"{url} is not yours")

    with monkeypatch.context() as patch:
        patch.setattr(_checkpoint, what, refuse)
        assert write_checkpoint(folder, checkpoint_at(2), keep=1)
    assert "is not yours" in caplog.text
    assert numbers_in(folder) == [1, 2]


@cases("damage", "half", "nan")
def test_a_damaged_newest_one_is_named_and_the_one_before_is_read(folder, caplog, damage):
    for number in (1, 2, 3):
        url = write_checkpoint(folder, checkpoint_at(number), keep=3)
    if damage == "half":
        whole = read_bytes(url)
        with write_atomically(url) as file:
            file.write(whole[: len(whole) // 2])
    else:  # as older versions wrote them
        bad = checkpoint_at(3, vector=np.full(7, np.nan, np.float32))
        write_checkpoint(folder, bad, keep=3)
    assert_same(read_checkpoint(folder), checkpoint_at(2))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert url in caplog.text
    text = r"00000003\.swc: " if damage == "half" else "must be finite"
    with pytest.raises(DataError, match=text):
        read_checkpoint(url)


def test_a_store_that_does_not_answer_is_no_reason_to_take_an_older_one(monkeypatch):
    folder = new_folder()
    for number in (1, 2):
        write_checkpoint(folder, checkpoint_at(number), keep=2)

    def refuse(file):
        raise TimeoutError("no answer")

    monkeypatch.setattr(_checkpoint, "decode", refuse)
    with pytest.raises(TimeoutError, match=r"00000002\.swc could not be read: no answer"):
        read_checkpoint(folder)


def test_one_that_its_run_removes_meanwhile_is_passed_over(monkeypatch):
    folder = new_folder()
    write_checkpoint(folder, checkpoint_at(1), keep=1)
    names = ["checkpoint-00000001.swc", "checkpoint-00000002.swc"]
    monkeypatch.setattr(_checkpoint, "list_folder", lambda url: names)
    assert read_checkpoint(folder).progress.averagings == 1


@cases("content", {}, {"notes.txt": b""}, {NAME_0: b"damaged"})
def test_a_folder_without_a_whole_one_is_named(folder, content):
    for name, text in content.items():
        with write_atomically(join(folder, name)) as file:
            file.write(text)
    with pytest.raises(CheckpointNotFoundError, match=f"Received: {folder}, wh.*start without"):
        read_checkpoint(folder)
    assert issubclass(CheckpointNotFoundError, FileNotFoundError)


def change_meta(**fields):
    return lambda meta, members: meta.update(fields)


@cases(
    "change, reason",
    (change_meta(format=1), "its format is 1"),
    (change_meta(rows="12"), "its rows is '12'"),
    (change_meta(rows=[1, 2, 3]), "2 of 3 workers"),
    (change_meta(epochs=None), "its epochs is None"),
    (change_meta(progress={**Progress().to_dict(), "newer": 1}), "metadata is invalid"),
    (change_meta(progress={**Progress().to_dict(), "epoch": "1"}), "integers of at least 0"),
    (change_meta(columns=[]), "members do not match"),
    (lambda meta, members: members.pop("vector.npy"), "vector.npy"),
    (lambda meta, members: members.pop("extras/0.bin"), "extras/0.bin"),
    (lambda meta, members: members.update({"more.txt": b""}), "members do not match"),
    (lambda meta, members: members.update({"callbacks.json": b"{"}), "metadata is invalid"),
    (lambda meta, members: members.update({"callbacks.json": b"[[1]]"}), "metadata is invalid"),
    (lambda meta, members: members.update({"callbacks/0/a.bin": b""}), "members do not match"),
    (lambda meta, members: members.update({"vector.npy": np.zeros(2, int)}), "1-D, of float"),
)
def test_a_file_of_another_form_is_rejected(change, reason):
    whole = checkpoint_at(extras=(b"1", b"2"), history={"loss": np.zeros(3)})
    url = write_checkpoint(new_folder(), whole, keep=1)
    with open_to_read(url) as file:
        meta, members = read_archive(file)
    change(meta, members)
    with write_atomically(url) as file:
        write_archive(file, meta, members)
    with pytest.raises(DataError, match=reason):
        read_checkpoint(url)


def resume(saved=None, /, **changes):
    master = ParameterAveragingTrainingMaster().to_dict()
    settings = {"fingerprint": "abc", "rows": [100, 101], "epochs": 5}
    settings["is_stream"] = False
    settings.update({name: changes.pop(name) for name in settings.keys() & changes.keys()})
    check_resumable(saved or checkpoint_at(), master={**master, **changes}, **settings)


def test_a_checkpoint_with_an_older_setting_of_the_updater_is_gone_on_from():
    settings = ParameterAveragingTrainingMaster(seed=7).to_dict()
    del settings["updater"], settings["outer_optimizer"]
    for saved, updater, other in ((True, "average", "reset"), (False, "reset", "local")):
        old = checkpoint_at(master={**settings, "save_updater": saved})
        resume(old, updater=updater)
        with pytest.raises(ConfigurationError, match=f"updater='{other}' instead of '{updater}'"):
            resume(old, updater=other)


@cases(
    "changes",
    {"prefetch_batches": 0, "xla": "off", "mesh": {"ports": 5000}, "averaging_frequency": 9},
    {"checkpoint": {"url": "elsewhere"}, "collect_training_stats": True, "epochs": 3},
    {"unknown_to_the_other": 1},
    {"seed": 7},
    {"rows": [67, 67, 67]},
    {"rows": [100, 101, 0, 0]},
)
def test_options_that_keep_minibatches_may_differ(changes):
    resume(**changes)


@cases(
    "changes, reason",
    ({"fingerprint": "another"}, "another network"),
    ({"rows": [200]}, "200 examples instead of 201"),
    ({"rows": [201], "is_stream": True}, "1 workers instead of 2, which is possible only"),
    ({"rows": [100, 99]}, "worker 1 has 99 examples instead of 101"),
    ({"batch_size_per_worker": 8}, "batch_size_per_worker=8 instead of 16"),
    ({"shuffle": False}, "shuffle=False instead of True"),
    ({"repartition": "never"}, "repartition='never'"),
    ({"repartition_strategy": "spark_default"}, "repartition_strategy='spark_default'"),
    ({"seed": 8}, "seed=8 instead of 7"),
    ({"updater": "reset"}, "updater='reset' instead of 'average'"),
    ({"outer_optimizer": {"momentum": 0.9}}, "outer_optimizer={'momentum': 0.9} instead of"),
    ({"name": "SharedTrainingMaster"}, "a SharedTrainingMaster instead of a Parameter"),
)
def test_options_that_change_minibatches_must_not_differ(changes, reason):
    with pytest.raises(ConfigurationError, match=reason):
        resume(**changes)


def test_settings_without_a_name_are_those_of_parameter_averaging():
    named = checkpoint_at()
    settings = {key: value for key, value in named.master.items() if key != "name"}
    resume(replace(named, master=settings))
    with pytest.raises(ConfigurationError, match="a SharedTrainingMaster instead"):
        resume(replace(named, master=settings), name="SharedTrainingMaster")


def test_a_run_that_has_trained_its_epochs_needs_more():
    done = checkpoint_at(progress=Progress(epoch=5))
    with pytest.raises(ConfigurationError, match=r"already trained all 5 epochs.*more than 5"):
        resume(done)
    with pytest.raises(ConfigurationError, match=r"already trained 5 epochs.*epochs=3"):
        resume(done, epochs=3)
    resume(done, epochs=6)
    owed = replace(done.progress, todo=(Span(0, 4, 10, 12),))
    resume(replace(done, progress=owed))
    with pytest.raises(ConfigurationError, match=r"already trained 1 epoch\."):
        resume(checkpoint_at(progress=Progress(epoch=1)), epochs=1)


class Gate:
    """Stands in for `write_checkpoint`: holds each write until it is let through."""

    def __init__(self, write):
        self.begun, self.let = threading.Semaphore(0), threading.Semaphore(0)
        self.problems = []
        self._write = write

    def __call__(self, *arguments, **options):
        self.begun.release()
        assert self.let.acquire(timeout=20)
        if self.problems:
            raise self.problems.pop(0)
        return self._write(*arguments, **options)


@pytest.fixture
def gate(monkeypatch):
    gate = Gate(write_checkpoint)
    monkeypatch.setattr(_checkpoint, "write_checkpoint", gate)
    return gate


@pytest.fixture
def writers():
    made = []

    def make(folder, *, keep):
        made.append(CheckpointWriter(folder, keep=keep, wrote=lambda *_: None))
        return made[-1]

    yield make
    for writer in made:
        writer.close(20)


def test_a_newer_one_takes_the_place_of_the_one_that_waits(gate, writers, caplog):
    folder = new_folder()
    writer = writers(folder, keep=9)
    writer.submit(checkpoint_at(1))
    assert gate.begun.acquire(timeout=20)
    for number in (2, 3, 4):  # while 1 is being written
        writer.submit(checkpoint_at(number))
    writer.close(0)
    assert folder in caplog.text
    gate.let.release(2)
    writer.close(20)
    writer.submit(checkpoint_at(5))
    assert numbers_in(folder) == [1, 4]


def test_a_failed_write_is_kept_and_the_next_one_is_tried(gate, writers, caplog):
    folder = new_folder()
    gate.problems.append(PermissionError("not yours"))
    writer = writers(folder, keep=1)
    writer.submit(checkpoint_at(1))
    gate.let.release()
    assert gate.begun.acquire(timeout=20)
    writer.submit(checkpoint_at(2))
    assert gate.begun.acquire(timeout=20)  # the first has failed by now
    assert f"{folder}: not yours" in caplog.text
    gate.let.release()
    writer.close(20)
    assert numbers_in(folder) == [2]
