"""A pass over files or a data set that counts what training could not use."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from sparkwright.data._arrow import from_bytes
from sparkwright.data._dataset import DataSet
from sparkwright.data._distributed import DistributedDataSet
from sparkwright.errors import ConfigurationError

from ._checking import CheckedFiles, Expected, check_examples, check_files
from ._clearing import check_target, clear, common_folder, folder_of
from ._loaders import Loader
from ._paths import FileToRead, find_files, is_rdd
from ._validation_result import ValidationResult
from ._visibility import check_any_visible

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
    move_to: str | os.PathLike[str] | None = None,
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
            without the files that are gone. With a loader and "delete" or "move", `where` must be
            a pattern, a list or an export, not a folder in which other files may lie.
        move_to: URL of a folder, for "move", outside the one that is validated.

    Raises:
        ConfigurationError: if an option cannot be meant, or executors do not see the files.
        DataError: if there is no file; with "delete" or "move" also if the loader raises anything
            but DataError, before any file is touched.
        OSError: whatever the store says when listing, removing or moving; with "delete" or "move"
            also when loading (from executors as a WorkerError), before any file is touched.

    Example:
        print(sw.data.validate("exports/train", spark=spark, features_shape=(28, 28, 1)))
    """
    expected = Expected(
        features=_shapes("features_shape", features_shape),
        labels=_shapes("labels_shape", labels_shape),
        labels_required=labels_required,
    )
    target = None if move_to is None else os.fspath(move_to)
    _check_options(where, on_invalid, target)
    if isinstance(where, DataSet):
        return check_examples(where, expected, "the data set")
    if isinstance(where, DistributedDataSet):
        return _of_data(where, expected)
    clearing = on_invalid != "keep"
    if target is not None:
        check_target(where, target)
    checked = _checked(where, expected, loader, spark, clearing=clearing)
    result = sum((part.result for part in checked), ValidationResult())
    if not clearing or not result.invalid:
        return result
    return result + clear(
        where,
        invalid=[url for part in checked for url in part.invalid],
        missing=[url for part in checked for url in part.missing],
        root=common_folder(url for part in checked for url in (part.first, part.last)),
        move_to=target,
    )


def _checked(
    where: Any,
    expected: Expected,
    loader: Loader | None,
    spark: "SparkSession | None",
    *,
    clearing: bool,
) -> list[CheckedFiles]:
    """What each task found."""
    check = partial(check_files, expected=expected, loader=loader, clearing=clearing)
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
            check = partial(check, expected=expected.completed(found.manifest))
        elif clearing and loader is not None and folder_of(where) is not None:
            raise ConfigurationError(
                "with a loader, files of a folder are not deleted or moved: it would find all "
                f"others invalid. Received: {where}. Give a pattern, such as `folder/*.npz`, or "
                "a list."
            )
        if spark is None:
            return list(check(found.files))
        check_any_visible(spark, found.probes)
        context, files = spark.sparkContext, list(found.files)
        tasks = max(context.defaultParallelism, -(-len(files) // _FILES_A_TASK))
        rdd = context.parallelize(files, min(tasks, len(files)))

    from sparkwright.spark._jobs import collect

    return collect(spark, rdd.mapPartitions(check), description="validate minibatch files")


def _of_data(data: DistributedDataSet, expected: Expected) -> ValidationResult:
    from sparkwright.spark._jobs import collect

    def check(index: int, chunks: Iterable[bytes]) -> Iterator[ValidationResult]:
        name = f"partition {index}"
        yield sum(
            (check_examples(from_bytes(chunk), expected, name) for chunk in chunks),
            ValidationResult(),
        )

    rdd = data.rdd.mapPartitionsWithIndex(check)
    results = collect(data.spark, rdd, description="validate examples")
    return sum(results, ValidationResult())


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
