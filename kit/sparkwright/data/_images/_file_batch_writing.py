"""Packing original files into file batches, on this machine or by Spark's executors."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import join, read_bytes, remove, write_atomically
from sparkwright.storage._listing import list_files, list_folder

from ._file_batches import ENTRIES, FileBatch, check_sizes, uri_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


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
        overwrite: remove the batches that are in `out_url`; default False.
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
    inside = f"{out_url.rstrip('/')}/batch-"
    files = [file for file in files if not file.url.startswith(inside)]
    if not files:
        raise DataError(
            f"there must be at least one file to pack. Received: source_url={source_url!r}, "
            f"extensions={extensions!r}."
        )
    old = [n for n in list_folder(out_url) if n.startswith("batch-") and n.endswith(".zip")]
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
        name = f"batch-{start // batch_size:06d}.zip"
        work.append((join(out_url, name), [file.url for file in batch]))
    for name in old:
        remove(join(out_url, name))
    if spark is None:
        return list(_packed(work))
    return _packed_on_spark(spark, work, partitions)


def _packed_on_spark(
    spark: "SparkSession", work: list[tuple[str, list[str]]], partitions: int | None
) -> list[str]:
    from sparkwright.spark._jobs import run_job

    context = spark.sparkContext
    tasks = min(len(work), partitions or context.defaultParallelism)
    rdd = context.parallelize(work, tasks).mapPartitions(_packed)
    return run_job(spark, rdd.collect, description="write file batches")


def _packed(work: Iterable[tuple[str, list[str]]]) -> Iterator[str]:
    """Write the archives; a second attempt of a task writes the same over it."""
    for target, urls in work:
        contents = tuple(map(read_bytes, urls))
        batch = FileBatch(uris=tuple(map(uri_of, urls)), contents=contents)
        with write_atomically(target) as file:
            file.write(batch.to_bytes())
        yield target


def _check_count(name: str, value: object, *, most: int | None = None) -> None:
    right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    if not right or (most is not None and isinstance(value, int) and value > most):
        upper = "" if most is None else f" and at most {most:,}"
        raise ConfigurationError(
            f"`{name}` must be an integer of at least 1{upper}. Received: {name}={value!r}."
        )
