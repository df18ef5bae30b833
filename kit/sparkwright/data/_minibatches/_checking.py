"""What each item of a validation must have, and which files are wrong in what they hold."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sparkwright.data._dataset import Array, DataSet
from sparkwright.errors import DataError

from ._loaders import Loader, MinibatchSource, arrow_loader, checked_dataset, is_as_written, load
from ._manifest import Manifest
from ._minibatch_files import problem_of
from ._paths import FileToRead
from ._read_ahead import read_ahead
from ._validation_result import ValidationResult

_REASONS = {
    "missing file": "missing_file",
    "no features": "missing_features",
    "unreadable file": "unreadable",
}


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


@dataclass(frozen=True, kw_only=True, slots=True)
class CheckedFiles:
    """What a task found in its files.

    Attributes:
        result: the counts.
        invalid: URLs of the files that are there and hold something wrong.
        missing: URLs of the files that are not there.
        first: the smallest URL of all.
        last: the greatest.
    """

    result: ValidationResult
    invalid: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    first: str
    last: str


def check_files(
    files: Iterable[FileToRead], *, expected: Expected, loader: Loader | None, clearing: bool
) -> Iterator[CheckedFiles]:
    """Load `files` and sum up what is wrong with them; yields once, or never without files.

    Args:
        files: what to load.
        expected: what every file must hold.
        loader: None for files that `export` wrote.
        clearing: whether what is invalid will be removed: then it is named, and an error that may
            not be the file's fault is raised instead of counted.
    """

    def check(file: FileToRead) -> tuple[str, ValidationResult]:
        return file.url, _check_file(file, expected, loader or arrow_loader, clearing=clearing)

    result = ValidationResult()
    invalid: list[str] = []
    missing: list[str] = []
    first = last = ""
    for url, found in read_ahead(files, check):
        first, last = (min(first, url), max(last, url)) if result.total else (url, url)
        result = result + found
        if clearing and found.invalid:
            (missing if found.missing_file else invalid).append(url)
    if result.total:
        yield CheckedFiles(
            result=result, invalid=tuple(invalid), missing=tuple(missing), first=first, last=last
        )


def _check_file(
    file: FileToRead, expected: Expected, loader: Loader, *, clearing: bool
) -> ValidationResult:
    try:
        if loader is arrow_loader:
            content = MinibatchSource(file.url).read()
            dataset = checked_dataset(content)
        else:
            content, dataset = b"", load(loader, MinibatchSource(file.url))
    except Exception as error:  # a loader of the user's raises what it likes
        problem = problem_of(file.url, error)
        if clearing and problem.reason != "missing file" and not isinstance(error, DataError):
            raise _not_the_files_fault(file.url, error) from error
        return ValidationResult(total=1, **{_REASONS[problem.reason]: 1}, first=(problem.message,))
    if file.examples is not None and file.examples != len(dataset):
        message = f"{file.url}: it holds {len(dataset)} examples, its manifest says {file.examples}"
        return ValidationResult(total=1, unreadable=1, first=(message,))
    result = check_examples(dataset, expected, file.url, count=1)
    if result.valid and loader is arrow_loader and not is_as_written(file, content):
        message = f"{file.url}: its bytes are not those of its checksum in the manifest"
        return ValidationResult(total=1, unreadable=1, first=(message,))
    return result


def _not_the_files_fault(url: str, error: Exception) -> Exception:
    """A store that fails and a mistake in a loader say nothing about what a file holds."""
    kind = OSError if isinstance(error, OSError) else DataError
    return kind(
        "a file is deleted or moved only for what it holds; a loader tells that by "
        f"`sparkwright.DataError`. Received: {url}: {type(error).__name__}: {error}. No file was "
        'touched. Correct the store or the loader, or use `on_invalid="keep"`.'
    )


def _text(shape: Sequence[int]) -> str:
    return "(" + ", ".join("any" if n == -1 else str(n) for n in shape) + ")"
