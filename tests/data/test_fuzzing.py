import contextlib
import gzip
import io
import json
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cases import cases
from tests.data.record_samples import read_records_of, read_tfrecords_of, write_tfrecord

import sparkwright as sw
from sparkwright._yaml import read_yaml
from sparkwright.data import DataSet, Manifest
from sparkwright.data._image_reader import ImageReader
from sparkwright.data._local_data import LocalData
from sparkwright.data._sequences import completed, prepared
from sparkwright.data._survey import Survey
from sparkwright.data.loaders import MinibatchReader
from sparkwright.data.paths import find_files
from sparkwright.data.pieces import SkipLog
from sparkwright.evaluation import AbstractEvaluation, Evaluation
from sparkwright.masters import TrainingMaster
from sparkwright.networks import NetworkSpec
from sparkwright.runs._checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from sparkwright.storage._model_archive import unpack_model, write_model_archive
from sparkwright.storage.listing import list_files
from sparkwright.workers.protocol import Progress

FLIPS = 24
DATA = DataSet(
    np.arange(60, dtype=np.float32).reshape(20, 3) / 7, np.arange(20, dtype=np.int32) % 4
)


@dataclass(frozen=True)
class Format:
    """How a file of a format is written and read.

    Attributes:
        write: into a folder.
        read: from that folder.
        damaged: pattern of the file to damage.
        exact: whether any change must be found: the format has checksums and counts.
    """

    write: Callable[[Path], Any]
    read: Callable[[Path], Any]
    damaged: str
    exact: bool = False


def columns(found):
    data = DataSet.concatenate(list(found))
    return {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in data.columns().items()}


def table():
    import pyarrow as pa

    return pa.table(
        {
            **{f"x{i}": DATA.features["features"][:, i] for i in range(3)},
            "y": [f"class {label}" for label in DATA.labels["labels"]],
        }
    )


def write_csv(folder):
    import pyarrow.csv as csv

    csv.write_csv(table(), folder / "a.csv")


def write_parquet(folder):
    import pyarrow.parquet as pq

    options = {"use_dictionary": False, "compression": "none", "write_page_checksum": True}
    pq.write_table(table(), folder / "a.parquet", row_group_size=8, **options)


def write_arrow(folder):
    import pyarrow as pa

    with pa.ipc.new_file(folder / "a.arrow", table().schema) as writer:
        writer.write_table(table(), 8)


def read_table(read):
    return lambda folder: columns([read(str(folder), labels="y", classes="infer").data])


def write_sequences(folder):
    for number in range(3):
        rows = (f"{step},{step * number}" for step in range(6))
        (folder / f"{number}.csv").write_text("\n".join(rows) + "\n")


def read_sequences(folder):
    reader, pairs = prepared(str(folder), labels=1)
    urls = [(one.url, None) for one, _ in pairs]
    found = sum((reader.survey([pair], SkipLog("raise")) for pair in urls), Survey())
    return columns(completed(reader, found, str(folder))(urls, SkipLog("raise")))


def write_images(folder):
    from PIL import Image

    for name, ending in (("cat", "png"), ("dog", "jpg")):
        (folder / name).mkdir()
        pixels = np.random.default_rng(0).integers(0, 255, (9, 9, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / name / f"a.{ending}")


def read_images(folder):
    reader = ImageReader.of(
        size=(9, 9), channels=3, label="parent", classes=["cat", "dog"], one_hot=False, scale=False,
        resize="bilinear", upright=False, draft=False, threads=1,
    )  # fmt: skip
    files = [file.url for file in list_files(str(folder))]
    return columns(reader.read_files(files, SkipLog("raise")))


def read_sequence_files(folder):
    return columns(read_records_of(folder, pieces=1, joined=False))


def read_by_number(folder):
    with sw.data.MapFileReader(str(folder)) as reader:
        return columns([reader.take(range(20))])


def read_tfrecord_files(folder):
    found = read_tfrecords_of(folder, joined=False)
    return columns([LocalData.of(found, SkipLog("raise"), str(folder)).data])


def read_minibatches(folder):
    found = find_files(str(folder / "export"), ours=True)
    reader = MinibatchReader(columns=found.manifest.columns)
    return columns(map(sw.data.from_bytes, reader.read(found.files, SkipLog("raise"))))


def write_old_minibatches(folder):
    export(folder)
    file = folder / "export" / "manifest.json"
    fields = json.loads(file.read_bytes())
    fields["files"] = [entry[:3] for entry in fields["files"]]
    file.write_text(json.dumps({**fields, "version": 1}))


def write_numpy(folder):
    np.savez(folder / "a.npz", features=DATA.features["features"], labels=DATA.labels["labels"])


def read_numpy(folder):
    reader = MinibatchReader(loader=sw.data.numpy_loader)
    files = find_files(str(folder / "a.npz"), ours=False).files
    return columns(map(sw.data.from_bytes, reader.read(files, SkipLog("raise"))))


def write_model(folder):
    saved = folder / "saved"
    saved.mkdir()
    (saved / "config.json").write_text('{"config": {"name": "net"}}')
    (saved / "metadata.json").write_text("{}")
    (saved / "model.weights.h5").write_bytes(bytes(range(256)) * 8)
    with (folder / "a.keras").open("wb") as file:
        write_model_archive(file, saved, lambda digests: {"about": {"digests": digests}})
    shutil.rmtree(saved)


def read_model(folder):
    url = str(folder / "a.keras")
    sw.verify_model(url)
    target = folder / "unpacked"
    shutil.rmtree(target, ignore_errors=True)
    with (folder / "a.keras").open("rb") as file:
        unpack_model(file, url, target)
    return [(target / name).read_bytes() for name in ("config.json", "model.weights.h5")]


def write_hdf5(folder):
    import h5py

    with h5py.File(folder / "a.h5", "w") as file:
        file.attrs["model_config"] = '{"config": {"name": "net", "layers": []}}'
        file.create_group("model_weights").create_dataset("kernel", data=np.arange(20.0))


def write_run(folder):
    checkpoint = Checkpoint(
        progress=Progress(epoch=2, averagings=3), vector=np.arange(50, dtype=np.float32),
        has_updater=False, master={}, fingerprint="f", rows=(10, 10), epochs=4, run="run-1",
    )  # fmt: skip
    write_checkpoint(str(folder), checkpoint, keep=1)


def read_run(folder):
    (file,) = folder.glob("*.swc")
    found = read_checkpoint(str(file))
    return found.vector.tobytes(), found.progress, found.rows, found.run, found.epochs


def write_evaluation(folder):
    found = Evaluation()
    found = found.updated(DATA.labels["labels"], np.eye(4)[DATA.labels["labels"]])
    sw.save_evaluation(found, str(folder / "a.json"))


def records(write, **options):
    return lambda folder: getattr(sw.data, f"write_{write}")(DATA, str(folder), **options)


def export(folder):
    return sw.data.to_minibatch_files(DATA, str(folder / "export"), batch_size=8)


SECOND = "export/_minibatches-*/*/*/*-000001.arrow"
FORMATS = {
    "csv": Format(write_csv, read_table(sw.data.read_csv), "a.csv"),
    "parquet": Format(write_parquet, read_table(sw.data.read_parquet), "a.parquet"),
    "arrow": Format(write_arrow, read_table(sw.data.read_arrow), "a.arrow"),
    "csv sequences": Format(write_sequences, read_sequences, "1.csv"),
    "png": Format(write_images, read_images, "cat/a.png"),
    "jpeg": Format(write_images, read_images, "dog/a.jpg"),
    "sequence file": Format(records("sequence_file"), read_sequence_files, "part-*"),
    "sequence file in blocks": Format(
        records("sequence_file", compression="block"), read_sequence_files, "part-*"
    ),
    "map file": Format(records("map_file"), read_sequence_files, "part-*/data"),
    "map file by number": Format(records("map_file"), read_by_number, "part-*/data"),
    "map file's index": Format(records("map_file"), read_by_number, "part-*/index"),
    "tfrecord": Format(partial(write_tfrecord, DATA), read_tfrecord_files, "part-*"),
    "packed tfrecord": Format(
        partial(write_tfrecord, DATA, pack=gzip.compress), read_tfrecord_files, "part-*"
    ),
    "minibatches": Format(export, read_minibatches, SECOND, exact=True),
    "minibatches without checksums": Format(write_old_minibatches, read_minibatches, SECOND),
    "npz": Format(write_numpy, read_numpy, "a.npz"),
    "manifest": Format(export, read_minibatches, "export/manifest.json", exact=True),
    "model": Format(write_model, read_model, "a.keras", exact=True),
    "hdf5 model": Format(
        write_hdf5, lambda folder: sw.verify_model(str(folder / "a.h5")).name, "a.h5"
    ),
    "checkpoint": Format(write_run, read_run, "*.swc", exact=True),
    "evaluation": Format(
        write_evaluation, lambda folder: sw.load_evaluation(str(folder / "a.json")), "a.json"
    ),
    "experiment": Format(
        lambda folder: sw.Experiment(epochs=3).save(str(folder / "a.yaml")),
        lambda folder: sw.Experiment.load(str(folder / "a.yaml")),
        "a.yaml",
    ),
}


def damages(content, others, chance):
    size = len(content)
    yield from (content[:end] for end in {0, 1, 4, size // 4, size // 2, size - size // 4})
    yield from (content[: size - cut] for cut in (1, 2, 8, 16))
    for _ in range(FLIPS):
        flipped = bytearray(content)
        flipped[chance.randrange(size)] ^= 1 << chance.randrange(8)
        yield bytes(flipped)
    for _ in range(4):
        start = chance.randrange(size)
        stop = min(size, start + chance.randrange(1, 40))
        yield content[:start] + bytes(stop - start) + content[stop:]
        yield content[:start] + content[stop:]
    yield bytes(size)
    yield from others


@cases("name", *FORMATS)
def test_damaged_file_is_read_unchanged_or_raises_with_its_name(name, tmp_path):
    form = FORMATS[name]
    contents = {}
    for other, made in FORMATS.items():
        folder = tmp_path / other
        folder.mkdir()
        if other == name or made.damaged.endswith((".csv", ".parquet", ".json", ".keras")):
            made.write(folder)
            (file,) = folder.glob(made.damaged)
            contents[other] = file.read_bytes()
    folder = tmp_path / name
    (file,) = folder.glob(form.damaged)
    intact = contents.pop(name)
    expected = form.read(folder)
    wrong = []
    for number, damaged in enumerate(damages(intact, [*contents.values()], random.Random(name))):
        if damaged == intact:
            continue
        file.write_bytes(damaged)
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                found = form.read(folder)
        except sw.SparkwrightError as error:
            if str(folder) not in str(error):
                wrong.append(f"{number}: without the file's name: {error}")
        except Exception as error:
            wrong.append(f"{number}: {type(error).__name__}: {error}")
        else:
            if found != expected and (form.exact or not damaged):
                wrong.append(f"{number}: other data from {len(damaged)} of {len(intact)} bytes")
    assert not wrong, "\n".join(wrong)


@cases("name", "parquet", "minibatches")
def test_changed_number_fails_its_checksum(name, tmp_path):
    form = FORMATS[name]
    form.write(tmp_path)
    (file,) = tmp_path.glob(form.damaged)
    content = file.read_bytes()
    number = DATA.features["features"][9, :1].tobytes()
    assert content.count(number) >= 1
    file.write_bytes(content.replace(number, np.float32(5).tobytes()))
    with pytest.raises(sw.DataError, match=file.name):
        form.read(tmp_path)


TWICE_JSON = '{"workers": 1, "mesh": {"port": 1, "port": 2}}'
TWICE_YAML = "workers: 1\nmesh:\n  port: 1\n  port: 2\n"


@cases(
    "read, text",
    (sw.SharedTrainingMaster.from_json, TWICE_JSON),
    (sw.SharedTrainingMaster.from_yaml, TWICE_YAML),
    (TrainingMaster.from_yaml, TWICE_YAML),
    (NetworkSpec.from_json, TWICE_JSON),
    (NetworkSpec.from_yaml, TWICE_YAML),
    (sw.Experiment.from_yaml, TWICE_YAML),
    (lambda text: Manifest.from_json(text.encode(), url="a"), TWICE_JSON),
    (AbstractEvaluation.from_json, TWICE_JSON),
)
def test_duplicate_keys_are_rejected(read, text):
    with pytest.raises(sw.SparkwrightError, match="duplicate key 'port'"):
        read(text)


def test_yaml_merges_may_be_overridden():
    found = read_yaml("a: &a {x: 1, y: 2}\nb: {<<: *a, x: 3}\n")
    assert found["b"] == {"x": 3, "y": 2}
