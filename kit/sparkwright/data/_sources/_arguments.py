"""What a DataSource gives the function of `sparkwright.data` that loads it."""

from typing import TYPE_CHECKING, Any

from sparkwright.data._tables._csv_format import MISSING_VALUES
from sparkwright.errors import ConfigurationError

if TYPE_CHECKING:
    from ._data_source import DataSource

# Delimiters that nobody sees have names.
SIGNS = {"tab": "\t", "space": " "}
_OF_IMAGES = (
    *("height", "width", "label_from", "pattern", "position"),
    *("mask_folder", "mask_suffix", "mask_binary"),
)


def keywords_of(source: "DataSource") -> dict[str, Any]:
    """The arguments after the place, without those at their defaults.

    Raises:
        ConfigurationError: if an option cannot be meant that way.
    """
    options = dict(source.options)
    found = _columns_and_classes(source, options)
    match source.format:
        case "csv" | "parquet" | "arrow":
            if source.categories:
                found["categories"] = dict.fromkeys(source.categories, "infer")
            number = options.pop("missing_number", 0.0)
            if options.get("missing") == "fill":
                options["missing"] = number
            if "missing_values" in options:
                options["missing_values"] = list(missing_values(options["missing_values"]))
        case "images":
            found |= _of_images(source)
            options = {name: v for name, v in options.items() if name not in _OF_IMAGES}
        case "tfrecord" if options.get("compression") == "none":
            options["compression"] = None
        case _:
            pass
    if "delimiter" in options:
        options["delimiter"] = SIGNS.get(options["delimiter"], options["delimiter"])
    return {**found, **options}


def missing_values(text: str) -> tuple[str, ...]:
    """The texts that stand for a missing value; nothing at all is always one.

    Example:
        >>> missing_values("NA ?")
        ('', 'NA', '?')
    """
    return (MISSING_VALUES[0], *text.split())


def _columns_and_classes(source: "DataSource", options: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if source.info.columns:
        if source.features:
            found["features"] = list(source.features)
        if source.label is not None:
            is_list = source.format in ("table", "tfrecord")
            found["labels"] = [source.label] if is_list else source.label
    has_labels = source.label is not None or options.get("labels_url") is not None
    if source.info.can_infer and has_labels and source.task == "classification":
        classes = source.classes
        found["classes"] = list(classes) if isinstance(classes, tuple) else classes
    return found


def _of_images(source: "DataSource") -> dict[str, Any]:
    """The arguments that are made of several options."""
    every = source.all_options
    found: dict[str, Any] = {"size": (every["height"], every["width"])}
    label = source.image_label()
    if label != "parent":
        found["label"] = label
    if every["label_from"] in ("folder", "name") and source.classes != "infer":
        if isinstance(source.classes, int):
            raise ConfigurationError(
                f"`classes` of images must be their names. Received: classes={source.classes}. "
                "Leave them out: all that occur are found."
            )
        found["classes"] = list(source.classes)
    return found
