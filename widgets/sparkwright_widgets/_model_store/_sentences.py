"""What the store says about what is ticked, saved and checked. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sparkwright.storage import ModelInfo
from sparkwright.storage._model_info import metrics_text
from sparkwright_widgets._block import Block
from sparkwright_widgets._format import count_text, escaped
from sparkwright_widgets._table import html_table, text_table

from ._catalog import Catalog, list_rows
from ._comparing import MOST_MODELS

_MOST_IN_STILL = 50
_HEADS = ("Model", "Saved", "Size", "Parameters", "Metrics", "Title")
_TEXT_COLUMNS = (1, 4, 5)


def why_disabled(catalog: Catalog, ticked: Sequence[ModelInfo], *, listed: bool) -> str:
    """What to do so that the buttons below the list can be pressed; or what is ticked."""
    if not catalog.folder_url:
        return "Give a folder first."
    if not listed:
        return "Press List models to see what is in the folder."
    if not catalog.models:
        return "Nothing here yet. Save a model, or choose another folder."
    if not ticked:
        return (
            f"Tick a model to load, check or delete it; tick two to {MOST_MODELS} to compare them."
        )
    if len(ticked) == 1:
        name = catalog.name_of(ticked[0])
        if ticked[0].problem is not None:
            return f"Ticked: {name}. It cannot be loaded: it is no usable model."
        return f"Ticked: {name}. Tick another one to compare them."
    names = ", ".join(catalog.name_of(info) for info in ticked[:MOST_MODELS])
    more = len(ticked) - MOST_MODELS
    if more > 0:
        return f"Ticked: {names} and {more} more; at most {MOST_MODELS} can be compared."
    return f"Ticked: {names}. To load one, tick it alone."


def what_is_saved(network: Any, metrics: Any, *, of_spark: bool) -> str:
    """What goes into the file, or why there is nothing to save."""
    if network is None:
        return "There is no network to save yet: train or load one."
    parts = ["the model"]
    if of_spark:
        parts.append("normalizer, class names and how it was trained, as far as known")
    numbers = metrics_text(metrics) if isinstance(metrics, Mapping) else ""
    if numbers:
        parts.append(f"metrics {numbers}")
    elif metrics and not isinstance(metrics, Mapping):
        parts.append("the evaluation")
    return f"Goes into the file: {'; '.join(parts)}. Its name will end in .keras."


def several(urls: Sequence[str]) -> str:
    """Names of a few files, else how many.

    Example:
        >>> several(["/a/x.keras", "/a/y.keras"])
        'x.keras, y.keras'
    """
    names = [url.rpartition("/")[2] for url in urls]
    if len(names) <= 3:
        return ", ".join(names)
    return f"{count_text(len(names))} models ({', '.join(names[:2])}, …)"


def verified(url: str, problem: str, *, has_checksums: bool) -> str:
    """What a check found."""
    name = url.rpartition("/")[2]
    if problem:
        return f"✕ {name}: {problem}"
    if not has_checksums:
        return f"✓ {name}: nothing wrong found; HDF5 has no checksums to compare."
    return f"✓ {name}: all parts match their checksums."


def still_block(catalog: Catalog, comparison_html: str, *, style: str) -> Block:
    """The list as a table, and the comparison, for saved notebooks and reports."""
    rows = list_rows(catalog, catalog.found[:_MOST_IN_STILL])
    left_out = len(catalog.found) - len(rows)
    more = f"{count_text(left_out)} more are not listed." if left_out else ""
    count = len(catalog.models)
    told = f"{count_text(count)} model{'' if count == 1 else 's'} in {catalog.folder_url}"
    table = html_table(_HEADS, rows, label="Saved models", text_columns=_TEXT_COLUMNS)
    html = f"<style>{style}</style><p><b>{escaped(told)}</b></p>"
    html += (table if rows else "") + (f"<p>{more}</p>" if more else "") + comparison_html
    lines = [told, text_table(_HEADS, rows, text_columns=_TEXT_COLUMNS)] if rows else [told]
    return Block(html=html, text="\n".join([*lines, *([more] if more else [])]), kind="models")
