"""A pass over files or a data set that counts what training could not use."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.data._arrow import from_bytes
from sparkwright.data._dataset import Array, DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.errors import ConfigurationError
from sparkwright.storage._files import absolute, exists, join, move, remove, write_bytes

from ._exported import ExportedDataSet, find_export
from ._loaders import Loader, MinibatchSource, NoFeaturesError, arrow_loader, load
from ._manifest import MANIFEST_NAME, Manifest
from ._minibatch_files import problem_of
from ._paths import FileToRead, find_files, is_rdd
from ._read_ahead import read_ahead
from ._validation_result import ValidationResult
from ._visibility import check_visible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OnInvalid = Literal["keep", "delete", "move"]
Shape = Sequence[int | None]
Shapes = Shape | Mapping[str, Shape]
_FILES_A_TASK = 64


def validate(
    where: Any,
    *,
    spark: "SparkSession | None" = None,
    features_shape: Shapes | None = None,
    labels_shape: Shapes | None = None,
    loader: Loader | None = None,
    labels_required: bool = True,
    on_invalid: OnInvalid = "keep",
    move_to: str | None = None,
) -> ValidationResult:
    """Load every file, count what is wrong, and remove what is invalid if so chosen.

    Args:
        where: what `from_minibatches` takes; or a DistributedDataSet or DataSet, of which
            examples are counted.
        spark: the session; default None: on this machine, unless `where` is on Spark.
        features_shape: of one example, such as (28, 28, 1), where None or -1 is any length; with
            several inputs a dict name -> shape; default None: as an export's manifest says, else
            not checked.
        labels_shape: likewise, () for a class number.
        loader: as for `from_minibatches`; default None: files that `export` wrote.
        labels_required: whether examples without labels are invalid; default True, unless an
            export's manifest says that there are none.
        on_invalid: "keep" (default) changes nothing; "delete" removes the files that exist and
            are invalid; "move" moves them below `move_to`. The manifest of an export is rewritten
            without the files that are gone.
        move_to: URL of a folder, for "move".

    Raises:
        ConfigurationError: if an option cannot be meant, or executors do not see the files.
        DataError: if there is no file.
        OSError: whatever the store says when listing, removing or moving.

    Example:
        print(sw.data.validate("exports/train", spark=spark, features_shape=(28, 28, 1)))
    """
    expected = Expected(
        features=_shapes("features_shape", features_shape),
        labels=_shapes("labels_shape", labels_shape),
        labels_required=labels_required,
    )
    _check_options(where, on_invalid, move_to)
    if isinstance(where, DataSet):
        return check_examples(where, expected, "the data set")
    if isinstance(where, DistributedDataSet):
        return _of_data(where, expected)
    checked = _checked(where, expected, loader, spark)
    result = sum((found for _, found in checked), ValidationResult())
    invalid = [url for url, found in checked if found.invalid]
    if on_invalid == "keep" or not invalid:
        return result
    return result + _cleared(where, invalid, checked, move_to=move_to)


def _checked(
    where: Any, expected: "Expected", loader: Loader | None, spark: "SparkSession | None"
) -> list[tuple[str, ValidationResult]]:
    """URL and result of every file."""
    rdd: Any = where if is_rdd(where) else None
    if rdd is not None:
        if spark is None:
            raise ConfigurationError(
                "an RDD of paths is validated by Spark. Received: spark=None. Give `spark=`."
            )
        rdd = rdd.map(lambda url: FileToRead(str(url)))
    else:
        found = find_files(where, ours=loader is None)
        if found.manifest is not None:
            expected = expected.completed(found.manifest)
        if spark is None:
            return list(_check_files(found.files, expected=expected, loader=loader))
        check_visible(spark, found.probe)
        context, files = spark.sparkContext, list(found.files)
        tasks = max(context.defaultParallelism, -(-len(files) // _FILES_A_TASK))
        rdd = context.parallelize(files, min(tasks, len(files)))

    from sparkwright.spark._jobs import run_job

    check = partial(_check_files, expected=expected, loader=loader)
    return run_job(spark, rdd.mapPartitions(check).collect, description="validate minibatch files")


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """What every item must have.

    Attributes:
        features: input name -> shape; "" stands for the only one; None: not checked.
        labels: likewise.
        labels_required: whether there must be labels.
    """

    features: dict[str, tuple[int, ...]] | None = None
    labels: dict[str, tuple[int, ...]] | None = None
    labels_required: bool = True

    def completed(self, manifest: Manifest) -> "Expected":
        """With what a manifest says where nothing else was asked for."""
        shapes: dict[str, dict[str, tuple[int, ...]]] = {"features": {}, "labels": {}}
        for column, (_, shape) in manifest.columns.items():
            group, _, name = column.partition("/")
            if group in shapes:
                shapes[group][name] = shape
        return Expected(
            features=self.features or shapes["features"],
            labels=self.labels or shapes["labels"],
            labels_required=self.labels_required and bool(shapes["labels"]),
        )


def check_examples(
    dataset: DataSet, expected: Expected, name: str, *, count: int | None = None
) -> ValidationResult:
    """What is wrong with `dataset`, counted as `count` items (default: its examples)."""
    items = len(dataset) if count is None else count
    found = _problem(dataset, expected)
    if found is None:
        return ValidationResult(total=items, valid=items)
    reason, message = found
    return ValidationResult(total=items, **{reason: items}, first=(f"{name}: {message}",))


def _problem(dataset: DataSet, expected: Expected) -> tuple[str, str] | None:
    if message := _missing(dataset.features, expected.features, "features"):
        return "missing_features", message
    if not dataset.labels and (expected.labels_required or expected.labels):
        return "missing_labels", "it has no labels"
    if dataset.labels and (message := _missing(dataset.labels, expected.labels, "labels")):
        return "missing_labels", message
    if message := _other_shape(dataset.features, expected.features, "features"):
        return "invalid_features", message
    if dataset.labels and (message := _other_shape(dataset.labels, expected.labels, "labels")):
        return "invalid_labels", message
    return None


def _missing(
    arrays: Mapping[str, Array], shapes: dict[str, tuple[int, ...]] | None, what: str
) -> str | None:
    if shapes is None or "" in shapes:
        return None
    missing = sorted(set(shapes) - set(arrays))
    return f"it has the {what} {sorted(arrays)}, not {missing}" if missing else None


def _other_shape(
    arrays: Mapping[str, Array], shapes: dict[str, tuple[int, ...]] | None, what: str
) -> str | None:
    for name, array in arrays.items():
        wanted = (shapes or {}).get(name, (shapes or {}).get(""))
        if wanted is None:
            continue
        found = array.shape[1:]
        fits = len(found) == len(wanted) and all(
            w in (-1, f) for f, w in zip(found, wanted, strict=True)
        )
        if not fits:
            return f"{what} {name!r} have the shape {_text(found)}, not {_text(wanted)}"
    return None


def _check_files(
    files: Iterable[FileToRead], *, expected: Expected, loader: Loader | None
) -> Iterator[tuple[str, ValidationResult]]:
    def check(file: FileToRead) -> tuple[str, ValidationResult]:
        return file.url, _check_file(file, expected, loader or arrow_loader)

    yield from read_ahead(files, check)


def _check_file(file: FileToRead, expected: Expected, loader: Loader) -> ValidationResult:
    try:
        dataset = load(loader, MinibatchSource(file.url))
    except Exception as error:  # a loader of the user's raises what it likes
        reason = (
            "missing_file"
            if isinstance(error, FileNotFoundError)
            else "missing_features"
            if isinstance(error, NoFeaturesError)
            else "unreadable"
        )
        message = problem_of(file.url, error).message
        return ValidationResult(total=1, **{reason: 1}, first=(message,))
    if file.examples is not None and file.examples != len(dataset):
        message = f"{file.url}: it holds {len(dataset)} examples, its manifest says {file.examples}"
        return ValidationResult(total=1, unreadable=1, first=(message,))
    return check_examples(dataset, expected, file.url, count=1)


def _of_data(data: DistributedDataSet, expected: Expected) -> ValidationResult:
    from sparkwright.spark._jobs import run_job

    def check(index: int, chunks: Iterable[bytes]) -> Iterator[ValidationResult]:
        name = f"partition {index}"
        yield sum(
            (check_examples(from_bytes(chunk), expected, name) for chunk in chunks),
            ValidationResult(),
        )

    rdd = data.rdd.mapPartitionsWithIndex(check)
    results = run_job(data.spark, rdd.collect, description="validate examples")
    return sum(results, ValidationResult())


def _cleared(
    where: Any,
    invalid: list[str],
    checked: list[tuple[str, ValidationResult]],
    *,
    move_to: str | None,
) -> ValidationResult:
    """Remove or move invalid files, on the driver: tasks may be tried twice, this happens once."""
    present = [url for url in invalid if exists(url)]
    if move_to is None:
        for url in present:
            remove(url)
    else:
        root = _common_folder([url for url, _ in checked])
        for url in present:
            move(url, join(absolute(move_to), url.removeprefix(root)))
    export = _export_of(where)
    if export is not None:
        folder = join(export.url, export.manifest.folder) + "/"
        gone = {url.removeprefix(folder) for url in invalid}
        manifest = export.manifest.without(gone)
        write_bytes(join(export.url, MANIFEST_NAME), manifest.to_json().encode())
    done = len(present)
    return ValidationResult(moved=done) if move_to is not None else ValidationResult(deleted=done)


def _export_of(where: Any) -> ExportedDataSet | None:
    if isinstance(where, ExportedDataSet):
        where = where.url
    one = isinstance(where, (str, os.PathLike))
    return find_export(os.fspath(where)) if one else None


def _common_folder(urls: list[str]) -> str:
    """What all URLs begin with, to a slash: what is behind it tells them apart."""
    first, last = min(urls), max(urls)
    length = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind("/", 0, length) + 1]


def _shapes(option: str, shapes: Any) -> dict[str, tuple[int, ...]] | None:
    if shapes is None:
        return None
    named: Any = shapes if isinstance(shapes, Mapping) else {"": shapes}
    try:
        found = {
            str(name): tuple(-1 if n is None else int(n) for n in shape)
            for name, shape in named.items()
        }
    except (TypeError, ValueError):
        found = {"": (0,)}
    if any(n == 0 or n < -1 for shape in found.values() for n in shape):
        raise ConfigurationError(
            f"`{option}` must be a shape of one example: lengths of at least 1, None or -1 for any "
            f"length; or a dict name -> shape. Received: {option}={shapes!r}."
        )
    return found


def _check_options(where: Any, on_invalid: str, move_to: str | None) -> None:
    if on_invalid not in ("keep", "delete", "move"):
        raise ConfigurationError(
            f'`on_invalid` must be "keep", "delete" or "move". Received: on_invalid={on_invalid!r}.'
        )
    if (on_invalid == "move") != (move_to is not None):
        raise ConfigurationError(
            '`move_to` is where `on_invalid="move"` moves files to. Received: '
            f"on_invalid={on_invalid!r}, move_to={move_to!r}."
        )
    if on_invalid != "keep" and isinstance(where, (DataSet, DistributedDataSet)):
        raise ConfigurationError(
            "only files can be deleted or moved. Received: "
            f"on_invalid={on_invalid!r} for a {type(where).__name__}."
        )


def _text(shape: Sequence[int]) -> str:
    return "(" + ", ".join("any" if n == -1 else str(n) for n in shape) + ")"
