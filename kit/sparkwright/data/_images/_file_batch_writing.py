"""Packing original files into file batches, on this machine or by Spark's executors."""

import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from sparkwright.data._minibatches._visibility import check_visible
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import (
    absolute,
    exists,
    join,
    read_bytes,
    remove,
    remove_empty_folder,
    remove_tree,
    write_atomically,
    write_bytes,
)
from sparkwright.storage._folders import move_files
from sparkwright.storage._listing import list_files, list_folder

from ._file_batches import ENTRIES, FileBatch, check_sizes, uri_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH = re.compile(r"batch-\d{6,}\.zip")


def write_file_batches(
    source_url: str,
    out_url: str,
    *,
    batch_size: int = 32,
    spark: "SparkSession | None" = None,
    extensions: Sequence[str] | None = None,
    recursive: bool = True,
    seed: int | None = 0,
    overwrite: bool = False,
    partitions: int | None = None,
) -> list[str]:
    """Pack files, as they are, into archives `batch-000000.zip`, `batch-000001.zip`, ….

    Args:
        source_url: a folder, a file or a pattern.
        out_url: a folder for the archives; with `spark`, one that all executors see.
        batch_size: files an archive, 1 to 9,999; the last may hold fewer. Default 32.
        spark: pack on the executors; default None: on this machine.
        extensions: endings of the files to pack, in any case; default None: all files.
        recursive: with sub-folders (default).
        seed: shuffles the files, so that each batch has some of all folders; default 0. None:
            sorted by URL.
        overwrite: replace the batches that are in `out_url`, once all is written; default False.
        partitions: tasks of the Spark job; default None: Spark's default parallelism.

    Returns:
        The URLs of the archives, in order.

    Raises:
        ConfigurationError: if an option cannot be meant, or `out_url` holds batches already.
        DataError: if there is no file, or a batch would be larger than readers accept.
        OSError: if a file cannot be read or written, naming it.
    """
    _check_count("batch_size", batch_size, most=ENTRIES)
    if partitions is not None:
        _check_count("partitions", partitions)
    files = list_files(source_url, extensions=extensions, recursive=recursive)
    out_url = absolute(out_url)  # executors may work in other folders
    files = [file for file in files if not _is_batch_in(out_url, file.url)]
    if not files:
        raise DataError(
            f"there must be at least one file to pack. Received: source_url={source_url!r}, "
            f"extensions={extensions!r}."
        )
    old = [name for name in list_folder(out_url) if _BATCH.fullmatch(name)]
    if old and not overwrite:
        raise ConfigurationError(
            f"`out_url` must be a folder without batches. Received: {out_url} with {len(old)}. Use "
            "another folder, or `overwrite=True`."
        )
    if seed is not None:
        files = [files[i] for i in np.random.default_rng(seed).permutation(len(files))]
    work: list[tuple[str, list[str]]] = []
    for start in range(0, len(files), batch_size):
        batch = files[start : start + batch_size]
        check_sizes([file.size_bytes for file in batch], what="a file batch")
        work.append((f"batch-{start // batch_size:06d}.zip", [file.url for file in batch]))
    names = [name for name, _ in work]
    present = exists(out_url)
    # Hidden, until all are there: old archives stay if anything fails.
    new = join(out_url, f".batches.{uuid.uuid4().hex}")
    try:
        if spark is None:
            written = list(_packed(work, new))
        else:
            written = _packed_on_spark(spark, work, new, partitions)
        _check_complete(new, names, written)
        move_files(names, new, out_url)
        for name in set(old) - set(names):
            remove(join(out_url, name))
    finally:
        remove_tree(new)
        if not present:
            remove_empty_folder(out_url)
    return [join(out_url, name) for name in names]


def _packed_on_spark(
    spark: "SparkSession", work: list[tuple[str, list[str]]], folder: str, partitions: int | None
) -> list[str]:
    from sparkwright.spark._jobs import collect
    from sparkwright.spark._slots import is_local

    if not is_local(spark):  # before hours of work: do executors see the driver's folders?
        probe = join(folder, "_probe")
        write_bytes(probe, folder.encode())
        check_visible(spark, probe)
        check_visible(spark, work[0][1][0])
        remove(probe)
    context = spark.sparkContext
    tasks = min(len(work), partitions or context.defaultParallelism)
    rdd = context.parallelize(work, tasks).mapPartitions(partial(_packed, folder=folder))
    return collect(spark, rdd, description="write file batches")


def _packed(work: Iterable[tuple[str, list[str]]], folder: str) -> Iterator[str]:
    """Write the archives; a second attempt of a task writes the same over it."""
    for name, urls in work:
        contents = tuple(map(read_bytes, urls))
        batch = FileBatch(uris=tuple(map(uri_of, urls)), contents=contents)
        with write_atomically(join(folder, name)) as file:
            file.write(batch.to_bytes())
        yield name


def _check_complete(folder: str, names: list[str], written: list[str]) -> None:
    """After it: does the driver see what executors have written?"""
    found = {*list_folder(folder)} & {*written}
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(
            "the folder must hold the archives that the tasks have written. Received: "
            f"{len(missing)} of {len(names)} missing, such as {missing[0]}, in {folder}. All "
            "executors must write into one store."
        )


def _is_batch_in(folder: str, url: str) -> bool:
    parent, _, name = url.rpartition("/")
    return _BATCH.fullmatch(name) is not None and _path(parent) == _path(folder)


def _path(url: str) -> str:
    return absolute(url).removeprefix("file://").rstrip("/")


def _check_count(name: str, value: object, *, most: int | None = None) -> None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not right or (most is not None and isinstance(value, int) and value > most):
        upper = "" if most is None else f" and at most {most:,}"
        raise ConfigurationError(
            f"`{name}` must be an integer of at least 1{upper}. Received: {name}={value!r}."
        )
