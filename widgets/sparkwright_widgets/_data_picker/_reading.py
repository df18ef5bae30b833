"""Read the preview of a source, after guessing its format or its columns."""

from dataclasses import replace

from sparkwright.data import DataPreview, DataProblem, DataSource, guess_source, preview
from sparkwright.data.guessing import with_guessed_columns
from sparkwright.errors import RunTimeoutError


def read_preview(source: DataSource, *, guess: bool, refit: bool) -> tuple[DataSource, DataPreview]:
    """Return the source and its preview; guess its format, or label and features, if asked."""
    found = _guessed(source) if guess else source
    seen = _previewed(found)
    if refit and (fitted := _refitted(found, seen)) != found:
        found, seen = fitted, _previewed(fitted)
    return found, seen


def _previewed(source: DataSource) -> DataPreview:
    """Return the preview; if the source cannot be read, a preview with the error."""
    try:
        return preview(source)
    except (ValueError, ImportError, RunTimeoutError) as error:
        return DataPreview(source=source, problems=(DataProblem.error(str(error)),))


def _guessed(source: DataSource) -> DataSource:
    try:
        found = guess_source(source.url)
    except (OSError, ValueError, ImportError, RunTimeoutError):
        return source  # the preview has the error
    return replace(found, split=source.split, partitions=source.partitions)


def _refitted(source: DataSource, seen: DataPreview) -> DataSource:
    names = {column.name for column in seen.columns}
    absent = {source.label, *source.features, *source.categories} - names - {None}
    chosen = source.label is not None or source.task == "other"
    if source.info.labeled and names and (absent or not chosen):
        return with_guessed_columns(source, seen.columns)
    return source
