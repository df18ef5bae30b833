"""A look at a data source: from its first bytes or files, without Spark."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sparkwright.data._column_choice import of_unnamed
from sparkwright.data._sources._data_source import DataSource
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.storage._files import is_folder, open_to_read
from sparkwright.storage._listing import StoredFile, list_files

from ._array_beginning import export_preview, tfrecord_preview
from ._beginning import Beginning, columnar_beginning, csv_beginning
from ._browsing import browse, within
from ._data_preview import ColumnLook, DataPreview, DataProblem
from ._guessing import guess_csv, guess_format, guess_label, guess_task
from ._image_beginning import digits_preview, image_preview
from ._problems import column_problems, feature_columns, label_problems

_GUESS_BYTES = 64 << 10
_LONGEST_CELL = 60


def preview(
    source: DataSource,
    *,
    rows: int = 20,
    sample_bytes: int = 1 << 20,
    timeout_s: float = 60.0,
) -> DataPreview:
    """Look at the beginning of some data, without Spark.

    Args:
        source: which data; label and features may still be missing.
        rows: rows to show, or images; default 20.
        sample_bytes: of text to read at most; default 1 MiB.
        timeout_s: default 60.

    Returns:
        Rows or images, statistics and problems; a problem is also what keeps it from being read.

    Raises:
        ConfigurationError: if `rows` or `sample_bytes` cannot be meant that way.
        RunTimeoutError: if the look does not end in time.
    """
    _check_count("rows", rows, least=0)
    _check_count("sample_bytes", sample_bytes, least=1)
    if source.info.needs_url and not source.url.strip():
        return DataPreview(source=source, note="Say where the data is.")
    look = within(timeout_s, lambda: _looked(source, rows, sample_bytes), source.url or "the files")
    skips = source.options.get("on_error") == "skip"
    problems = [
        replace(problem, severity="warning") if skips and problem.can_skip else problem
        for problem in look.problems
    ]
    return replace(look, problems=tuple(sorted(problems, key=lambda p: p.severity)))


def _check_count(name: str, value: Any, *, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(
            f"`{name}` must be an integer of at least {least}. Received: {name}={value!r}."
        )


def guess_source(url: str, *, timeout_s: float = 20.0) -> DataSource:
    """What a person would make of what lies at `url`: format, options, label and task.

    Raises:
        FileNotFoundError: if there is nothing.
        OSError: whatever the store says, naming the URL.
        RunTimeoutError: if the store does not answer in time.
    """
    place = url.strip()
    return within(timeout_s, lambda: _guessed(place), place)


def _guessed(url: str) -> DataSource:
    files = folders = ()
    if is_folder(url):
        entries = browse(url, most=2000).entries
        files = tuple(entry.name for entry in entries if not entry.is_folder)
        folders = tuple(entry.name for entry in entries if entry.is_folder)
    source = DataSource(format=guess_format(url, files, folders), url=url)
    if source.format == "csv":
        file = _files(source)[0]
        with open_to_read(file.url) as opened:
            content = b"" if _is_packed(file.url) else opened.read(_GUESS_BYTES)
        is_all = len(content) < _GUESS_BYTES
        source = replace(source, options=guess_csv(content, file.url, is_all=is_all))
    if source.info.labelled:
        return with_guessed_columns(source, preview(source).columns)
    return source


def with_guessed_columns(source: DataSource, columns: Sequence[ColumnLook]) -> DataSource:
    """`source` with the label, the task and the categories that its columns suggest."""
    if not columns or not source.info.labelled:
        return source
    known = {column.name: column for column in columns}
    label = source.label if source.label in known else guess_label(columns)
    task = "other" if label is None else guess_task(known[label])
    features = tuple(name for name in source.features if name in known and name != label)
    kept = replace(source, label=label, features=features, categories=(), task=task)
    used = feature_columns(kept, columns)
    categories = tuple(column.name for column in used if _may_be_category(column))
    return replace(kept, categories=categories)


def _may_be_category(column: ColumnLook) -> bool:
    return column.kind == "text" and not column.has_decimal_commas


def _looked(source: DataSource, rows: int, sample_bytes: int) -> DataPreview:
    try:
        match source.format:
            case "digits":
                return digits_preview(source, pictures=rows)
            case "images":
                return image_preview(source, pictures=rows)
            case "csv" | "csv_sequences":
                return _of_csv(source, rows, sample_bytes)
            case "parquet" | "arrow":
                files = _files(source)
                return _of_table(source, columnar_beginning(files, source, shown=rows), files, rows)
            case "minibatches":
                return export_preview(source, rows)
            case "tfrecord":
                return tfrecord_preview(source, _files(source), rows)
            case "sequence_file" | "map_file":
                return _listed_only(source)
            case "table":
                return DataPreview(source=source, note="A table is seen when Spark loads it.")
    except (ConfigurationError, DataError, OSError) as error:
        sentence = " ".join(str(error).split())
        return DataPreview(source=source, problems=(DataProblem.error(sentence),))


def _of_csv(source: DataSource, rows: int, sample_bytes: int) -> DataPreview:
    files = _files(source)
    is_sequences = source.format == "csv_sequences"
    if is_sequences and not source.all_options["header"]:
        features = tuple(map(of_unnamed, source.features))
        label = None if source.label is None else of_unnamed(source.label)
        source = replace(source, label=label, features=features)
    begun = csv_beginning(
        files, source.csv_format(), sample_bytes=sample_bytes, can_break=not is_sequences
    )
    found = _of_table(source, begun, files, rows)
    if not is_sequences:
        return found
    note = f"These are the steps of {files[0].url.rpartition('/')[2]}, one of {len(files):,} files."
    # Each file is an example of its own length: rows of all files mean nothing.
    steps = replace(found, unit="step", in_all=None, is_estimate=False, note=note)
    return replace(steps, feature_shape=None)


def _of_table(
    source: DataSource, begun: Beginning, files: Sequence[StoredFile], rows: int
) -> DataPreview:
    columns = begun.columns()
    looked_at = begun.rows + begun.left_out
    is_all = not begun.is_estimate and begun.in_all == looked_at
    problems = begun.problems + column_problems(source, columns, begun.place, values=begun.values)
    if not begun.rows:
        problems.append(DataProblem.error("There is no row."))
    labels: tuple[tuple[str, int], ...] = ()
    label = next((column for column in columns if column.name == source.label), None)
    if label is not None and source.task == "classification" and 0 < label.distinct <= 1000:
        counts: dict[str, int] = {}
        for text in begun.values[label.name]:
            if text is not None:
                counts[text] = counts.get(text, 0) + 1
        labels = tuple(sorted(counts.items(), key=lambda item: -item[1]))
        problems += label_problems(labels, unit="row", is_all=is_all)
    shown = min(rows, begun.rows)
    return DataPreview(
        source=source,
        looked_at=looked_at,
        in_all=begun.in_all,
        is_estimate=begun.is_estimate,
        columns=tuple(columns),
        rows=tuple(
            tuple(_cell(begun.values[name][row]) for name in begun.names) for row in range(shown)
        ),
        labels=labels,
        class_count=_class_count(source, labels),
        feature_shape=_feature_shape(source, columns),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        problems=tuple(problems),
    )


def _class_count(source: DataSource, labels: Sequence[Any]) -> int | None:
    if source.task != "classification":
        return None
    if source.classes == "infer":
        return len(labels) or None
    return source.classes if isinstance(source.classes, int) else len(source.classes)


def _feature_shape(source: DataSource, columns: Sequence[ColumnLook]) -> tuple[int, ...] | None:
    """Of one example, as `TableSchema` makes it; categories count the values that were seen."""
    used = feature_columns(source, columns)
    if len(used) == 1 and used[0].shape is not None:
        return used[0].shape
    width, categories = 0, frozenset(source.categories)
    for column in used:
        size = 1
        for axis in column.shape or ():
            size *= axis
        width += column.distinct if column.name in categories else size
    return (width,) if width else None


def _listed_only(source: DataSource) -> DataPreview:
    files = _files(source)
    return DataPreview(
        source=source,
        unit="record",
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        note="Records of Hadoop are seen when Spark loads them.",
    )


def _files(source: DataSource) -> list[StoredFile]:
    folder = is_folder(source.url)
    endings = source.info.endings if folder and source.format != "sequence_file" else None
    if source.format == "csv_sequences" and folder:
        endings = ("csv", "tsv", "txt")
    found = list_files(source.url, extensions=endings or None)
    if not found:
        raise DataError(
            f"There is no file ending in {', '.join(endings or ('anything',))} at {source.url}."
        )
    return found


def _is_packed(url: str) -> bool:
    return url.lower().endswith((".gz", ".bz2", ".zst"))


def _cell(text: str | None) -> str:
    if text is None:
        return ""
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
