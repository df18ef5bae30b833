"""Count invalid files or examples, and optionally remove invalid files."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import add
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkwright.cluster.connect import context_of
from sparkwright.cluster.jobs import collect
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.options import check_choice
from sparkwright.storage.files import exists, is_folder, join, remove, write_bytes

from ._distributed import DistributedDataSet
from ._exported import ExportedDataSet
from ._manifest import MANIFEST_NAME, Manifest
from ._skipped import ValidationResult
from .dataset import DataSet
from .loaders import Loader, MinibatchSource, checked_dataset, load, problem_of, read_ahead
from .paths import FileToRead, check_visible, export_at, find_files, is_rdd

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Shape = Sequence[int | None]
Shapes = Shape | Mapping[str, Shape]
OnInvalid = Literal["keep", "delete"]
_FILES_A_TASK = 64
_REASONS = {
    "missing file": "missing_file",
    "no features": "missing_features",
    "unreadable file": "unreadable",
}


def validate(
    where: Any,
    *,
    spark: "SparkSession | None" = None,
    features_shape: Shapes | None = None,
    labels_shape: Shapes | None = None,
    loader: Loader | None = None,
    labels_required: bool = True,
    on_invalid: OnInvalid = "keep",
) -> ValidationResult:
    """Load every file, count invalid files or examples, and optionally remove invalid files.

    Args:
        where: files as for `from_minibatches`; or a DistributedDataSet or DataSet, whose examples
            are counted.
        spark: the session; default None: on this machine, unless `where` is on Spark.
        features_shape: shape of one example, such as (28, 28, 1); None or -1 means any length. For
            several inputs, a dict name -> shape. Default None: the shape in an export's manifest,
            else not checked.
        labels_shape: as `features_shape`; () for a class index.
        loader: as for `from_minibatches`; default None: files written by `export`.
        labels_required: whether examples without labels are invalid. Default True, unless an
            export's manifest has no labels.
        on_invalid: "keep" (default) changes nothing; "delete" deletes invalid files, and removes
            them and missing files from the manifest of an export. With a loader and "delete",
            `where` must be a pattern, a list or an export, because a folder may contain other
            files.

    Raises:
        ConfigurationError: if an option is invalid, or executors cannot access the files.
        DataError: if there is no file. With "delete", also if the loader raises any other exception
            than DataError; no file is changed.
        OSError: if the store fails to list or delete files. With "delete", also if it fails to load
            files; no file is changed. Executors raise a WorkerError instead.

    Example:
        print(sw.data.validate("exports/train", spark=spark, features_shape=(28, 28, 1)))
    """
    expected = Expected(
        features=_expected_shapes("features_shape", features_shape),
        labels=_expected_shapes("labels_shape", labels_shape),
        labels_required=labels_required,
    )
    check_choice("on_invalid", on_invalid, get_args(OnInvalid))
    if on_invalid != "keep" and isinstance(where, DataSet | DistributedDataSet):
        raise ConfigurationError(
            "only files can be deleted. Received: "
            f"on_invalid={on_invalid!r} for a {type(where).__name__}."
        )
    if isinstance(where, DataSet):
        return expected.check(where, "the data set", len(where))
    if isinstance(where, DistributedDataSet):
        found = where.reduce_chunks(
            lambda chunk, partition, _: expected.check(chunk, f"partition {partition}", len(chunk)),
            add,
            description="validate examples",
        )
        return found or ValidationResult()
    checked = _checked(where, expected, loader, spark, clearing=on_invalid != "keep")
    total = sum((result for result, _ in checked), ValidationResult())
    bad = [url for _, urls in checked for url in urls]
    return total + _clear(where, bad) if bad else total


def _expected_shapes(option: str, shapes: Any) -> dict[str, tuple[int, ...]] | None:
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Expected:
    """Required shapes of every item: name ("" if there is only one) -> shape; None: not checked."""

    features: dict[str, tuple[int, ...]] | None = None
    labels: dict[str, tuple[int, ...]] | None = None
    labels_required: bool = True

    def completed(self, manifest: Manifest) -> "Expected":
        """Return a copy in which the manifest's values replace missing ones."""
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

    def check(self, dataset: DataSet, name: str, items: int) -> ValidationResult:
        """Validate `dataset`; a problem counts as `items` invalid items."""
        found = self._problem(dataset)
        if found is None:
            return ValidationResult(total=items, valid=items)
        reason, message = found
        return ValidationResult(total=items, **{reason: items}, first=(f"{name}: {message}",))

    def _problem(self, dataset: DataSet) -> tuple[str, str] | None:
        groups = (
            ("features", dataset.features, self.features or {}),
            ("labels", dataset.labels, self.labels or {}),
        )
        for group, arrays, shapes in groups:
            if not arrays and (shapes or self.labels_required):
                return f"missing_{group}", f"it has no {group}"
            missing = sorted(set(shapes) - set(arrays))
            if arrays and missing and "" not in shapes:
                names = sorted(arrays)
                return f"missing_{group}", f"it has the {group} {names}, not {missing}"
        for group, arrays, shapes in groups:
            for name, array in arrays.items():
                wanted, found = shapes.get(name, shapes.get("")), array.shape[1:]
                if wanted is not None and not _fits(found, wanted):
                    message = f"{group} {name!r} have the shape {_text(found)}, not {_text(wanted)}"
                    return f"invalid_{group}", message
        return None


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(
        length in (-1, found) for found, length in zip(shape, wanted, strict=True)
    )


def _text(shape: Sequence[int]) -> str:
    return "(" + ", ".join("any" if n == -1 else str(n) for n in shape) + ")"


# -- checking files


# The result for several files, and the URLs of invalid and missing ones if these will be removed.
Checked = tuple[ValidationResult, list[str]]


def _checked(
    where: Any,
    expected: Expected,
    loader: Loader | None,
    spark: "SparkSession | None",
    *,
    clearing: bool,
) -> list[Checked]:
    check = partial(_check_files, expected=expected, loader=loader, clearing=clearing)
    if is_rdd(where):
        if spark is None:
            raise ConfigurationError(
                "an RDD of paths is validated by Spark. Received: spark=None. Give `spark=`."
            )
        rdd = where.map(lambda url: FileToRead(str(url)))
    else:
        found = find_files(where, ours=loader is None)
        if found.manifest is not None:
            check = partial(check, expected=expected.completed(found.manifest))
        elif clearing and loader is not None and _folder_of(where) is not None:
            raise ConfigurationError(
                "with a loader, files of a folder are not deleted: it would find all "
                f"others invalid. Received: {where}. Give a pattern, such as `folder/*.npz`, or "
                "a list."
            )
        if spark is None:
            return list(check(found.files))
        check_visible(spark, *found.probes)
        context, files = context_of(spark), list(found.files)
        tasks = max(context.defaultParallelism, -(-len(files) // _FILES_A_TASK))
        rdd = context.parallelize(files, min(tasks, len(files)))
    return collect(spark, rdd.mapPartitions(check), description="validate minibatch files")


def _check_files(
    files: Iterable[FileToRead], *, expected: Expected, loader: Loader | None, clearing: bool
) -> Iterator[Checked]:
    total, bad = ValidationResult(), list[str]()

    def check(file: FileToRead) -> tuple[str, ValidationResult]:
        return file.url, _result_of(file, expected, loader, clearing=clearing)

    for url, result in read_ahead(files, check):
        total += result
        bad += [url] if clearing and result.invalid else []
    yield total, bad


def _result_of(
    file: FileToRead, expected: Expected, loader: Loader | None, *, clearing: bool
) -> ValidationResult:
    source, content = MinibatchSource(file.url), None
    try:
        if loader is None:
            content = source.read()
            dataset = checked_dataset(content)
        else:
            dataset = load(loader, source)
    except Exception as error:  # any exception of the user's loader
        problem = problem_of(file.url, error)
        if clearing and problem.reason != "missing file" and not isinstance(error, DataError):
            # Failures of the store and bugs in the loader do not make a file invalid.
            kind = OSError if isinstance(error, OSError) else DataError
            raise kind(
                "a file is deleted only for what it holds; a loader reports that by "
                f"`sparkwright.DataError`. Received: {file.url}: {type(error).__name__}: {error}. "
                "No file was touched. Correct the store or the loader, or use "
                '`on_invalid="keep"`.'
            ) from error
        return ValidationResult(total=1, **{_REASONS[problem.reason]: 1}, first=(problem.message,))
    wrong = None
    result = expected.check(dataset, file.url, 1)
    if file.examples is not None and file.examples != len(dataset):
        wrong = f"it holds {len(dataset)} examples, its manifest says {file.examples}"
    elif result.valid and content is not None and not file.is_as_written(content):
        wrong = "its bytes are not those of its checksum in the manifest"
    if wrong is None:
        return result
    return ValidationResult(total=1, unreadable=1, first=(f"{file.url}: {wrong}",))


# -- removing invalid files: on the driver, as tasks may be retried


def _clear(where: Any, urls: list[str]) -> ValidationResult:
    """Delete files, and remove these and missing files from an export's manifest."""
    present = list(filter(exists, dict.fromkeys(urls)))  # a list may contain duplicates
    for url in present:
        remove(url)
    folder = _folder_of(where)
    export = None if folder is None else export_at(folder)
    if export is not None:
        files = join(export.url, export.manifest.folder) + "/"
        manifest = export.manifest.without({url.removeprefix(files) for url in urls})
        if manifest != export.manifest:
            write_bytes(join(export.url, MANIFEST_NAME), manifest.to_json().encode())
    return ValidationResult(deleted=len(present))


def _folder_of(where: Any) -> str | None:
    """Return the URL if `where` is a folder or an export, else None."""
    if isinstance(where, ExportedDataSet):
        return where.url
    if isinstance(where, (str, os.PathLike)):
        url = os.fspath(where)
        return url if is_folder(url) else None
    return None
