"""A source of data as a plain value: which files, which columns, which options."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from sparkwright.data._images._image_labels import MaskFile, PatternLabel
from sparkwright.data._tables._csv_format import CsvFormat
from sparkwright.errors import ConfigurationError

from ._arguments import SIGNS, keywords_of, missing_values
from ._data_split import DataSplit
from ._formats import FORMATS, FormatInfo, SourceFormat
from ._source_call import Expression, SourceCall

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.data._distributed import DistributedDataSet

DataTask = Literal["classification", "regression", "other"]
_TASKS = ("classification", "regression", "other")
_FIELDS = (
    *("format", "url", "features", "label", "categories", "task", "classes", "options"),
    *("partitions", "split"),
)


@dataclass(frozen=True, kw_only=True, slots=True)
class DataSource:
    """Where data comes from and what of it is used, complete enough to load it: `load(spark)`.

    It may be incomplete while somebody works on it: `problem` says what is missing.

    Attributes:
        format: how it is stored; default "digits", the bundled images.
        url: a file, a folder or a pattern in any file system; with "table" the table's name.
        features: columns that become the features; empty (default): all but the label. With
            "tfrecord", keys.
        label: the column to predict; default None: none.
        categories: columns of text among the features; each becomes a feature of 0 or 1 for every
            value that occurs.
        task: "classification" (default): the label is a class. "regression": a number. "other":
            numbers, or no label at all.
        classes: with classification: "infer" (default): all values that occur; a count: labels are
            integers from 0; or their names, in order.
        options: those of the format's reader that differ from their defaults; see `FORMATS`.
        partitions: of the distributed data; default None: as fits Spark and the files.
        split: into training, validation and test.

    Raises:
        ConfigurationError: if a field cannot be meant that way.

    Example:
        >>> source = DataSource(format="csv", url="iris.csv", label="species")
        >>> print(source.to_code(), end="")
        data = sw.data.from_csv(spark, "iris.csv", labels="species", classes="infer")
        >>> DataSource.from_dict(source.to_dict()) == source
        True
    """

    format: SourceFormat = "digits"
    url: str = ""
    features: tuple[str, ...] = ()
    label: str | None = None
    categories: tuple[str, ...] = ()
    task: DataTask = "classification"
    classes: Literal["infer"] | int | tuple[str, ...] = "infer"
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    partitions: int | None = None
    split: DataSplit = field(default_factory=DataSplit)

    def __post_init__(self) -> None:
        """Check each field by itself.

        Raises:
            ConfigurationError: naming the field and what it received.
        """
        known = isinstance(self.format, str) and self.format in FORMATS
        _check(known, "format", f"one of {', '.join(FORMATS)}", self.format)
        _check(isinstance(self.url, str), "url", "text", self.url)
        _check(
            self.label is None or isinstance(self.label, str), "label", "text or None", self.label
        )
        for name in ("features", "categories"):
            object.__setattr__(self, name, _texts(name, getattr(self, name)))
        _check(self.task in _TASKS, "task", f"one of {', '.join(_TASKS)}", self.task)
        object.__setattr__(self, "classes", _classes(self.classes))
        count = self.partitions
        _check(count is None or _is_count(count), "partitions", "at least 1, or None", count)
        _check(isinstance(self.split, DataSplit), "split", "a DataSplit", self.split)
        object.__setattr__(self, "options", self._checked_options())

    def _checked_options(self) -> dict[str, Any]:
        _check(isinstance(self.options, Mapping), "options", "a mapping", self.options)
        known = {option.name: option for option in self.info.options}
        unknown = [name for name in self.options if name not in known]
        if unknown:
            raise ConfigurationError(
                f"`options` of {self.format} must be some of {', '.join(known) or 'none'}. "
                f"Received: {', '.join(map(str, unknown))}."
            )
        found: dict[str, Any] = {}
        for name, value in self.options.items():
            if name == "delimiter" and isinstance(value, str):
                value = {sign: word for word, sign in SIGNS.items()}.get(value, value)
            known[name].check(value)
            if value != known[name].default:
                found[name] = value
        return found

    @property
    def info(self) -> FormatInfo:
        """What is to be known of the format."""
        return FORMATS[self.format]

    @property
    def all_options(self) -> dict[str, Any]:
        """Every option of the format, those at their defaults too."""
        defaults = {option.name: option.default for option in self.info.options}
        return {**defaults, **self.options}

    @property
    def problem(self) -> str | None:
        """What is missing or does not go together, in a sentence; None: it can be loaded."""
        info = self.info
        if info.needs_url and not self.url.strip():
            what = "the table's name" if self.format == "table" else "a path, or a URL as hdfs://…"
            return f"Say where the data is: {what}."
        if info.labelled and self.label is None and self.task != "other":
            return 'Choose the column with the label, or the task "other" for data without one.'
        if self.label is not None and self.label in self.features:
            return (
                f"The label {self.label!r} is among the features. The network would just copy it."
            )
        features = set(self.features)
        if strangers := [c for c in self.categories if features and c not in features]:
            return f"The category {strangers[0]!r} is not among the features."
        if self.format == "table" and not self.features:
            return "Choose the features: a table of Spark has no columns of its own accord."
        if self.format == "tfrecord" and self.label is not None and not self.features:
            return "Choose the features too, or neither features nor label."
        try:
            self.call()
            if self.format == "csv":
                self.csv_format()
        except ConfigurationError as error:
            return str(error)
        return None

    def csv_format(self) -> CsvFormat:
        """How CSV files are written.

        Raises:
            ConfigurationError: if an option cannot be meant that way.
        """
        options = self.all_options
        delimiter: str = options["delimiter"]
        return CsvFormat(
            header=options["header"],
            delimiter=SIGNS.get(delimiter, delimiter),
            quote=options["quote"],
            skip_lines=options["skip_lines"],
            newlines_in_values=options.get("newlines_in_values", False),
            encoding=options.get("encoding", "utf-8"),
            missing_values=missing_values(options.get("missing_values", "NA NaN null")),
        )

    def image_label(self) -> Any:
        """Where labels of images come from, as `from_images` takes it.

        Raises:
            ConfigurationError: if the pattern is none.
        """
        options = self.all_options
        match options["label_from"]:
            case "name":
                return PatternLabel(pattern=options["pattern"], position=options["position"])
            case "mask":
                return MaskFile(
                    folder=options["mask_folder"],
                    suffix=options["mask_suffix"],
                    binary=options["mask_binary"],
                )
            case "none":
                return None
            case _:
                return "parent"

    def call(self) -> SourceCall:
        """The call of `sparkwright.data` that loads it.

        Raises:
            ConfigurationError: if an option cannot be meant that way.
        """
        keywords = keywords_of(self)
        if self.partitions is not None and self.format != "table":
            keywords["partitions"] = self.partitions
        return SourceCall(
            function="from_dataframe" if self.format == "table" else _FUNCTIONS[self.format],
            place=self.url if self.info.needs_url else None,
            is_table=self.format == "table",
            keywords=keywords,
        )

    def to_code(self, variable: str = "data", *, url: str | None = None) -> str:
        """Python source that loads the same data; it needs `sw` (sparkwright) and `spark`.

        Args:
            variable: what the data is called; default "data".
            url: Python source that stands in place of the URL, such as a name; default None: the
                URL itself.

        Raises:
            ConfigurationError: if an option cannot be meant that way.
        """
        call = self.call()
        if url is not None and call.place is not None:
            call = replace(call, place=Expression(url))
        return call.to_code(variable)

    def load(self, spark: "SparkSession") -> "DistributedDataSet":
        """The data, distributed; classes that are to be found take a pass over it.

        Raises:
            ConfigurationError: if something is missing; see `problem`.
            DataError: if files do not fit.
            OSError: whatever the store says, naming the URL.
        """
        from ._loading import load

        return load(self, spark)

    def load_split(self, spark: "SparkSession") -> "dict[str, DistributedDataSet]":
        """Name of each part ("train", "validation", "test") -> its data.

        Raises:
            ConfigurationError: if something is missing; see `problem`.
            DataError: if files do not fit.
            OSError: whatever the store says, naming the URL.
        """
        from ._loading import load_split

        return load_split(self, spark)

    def to_dict(self) -> dict[str, Any]:
        """JSON-able fields; what is at its default is left out, but for the format."""
        found: dict[str, Any] = {
            "format": self.format,
            "url": self.url,
            "features": list(self.features),
            "label": self.label,
            "categories": list(self.categories),
            "task": self.task,
            "classes": _as_list(self.classes),
            "options": dict(self.options),
            "partitions": self.partitions,
            "split": self.split.to_dict(),
        }
        usual: dict[str, Any] = {
            **{"url": "", "features": [], "label": None, "categories": [], "options": {}},
            **{"task": "classification", "classes": "infer", "partitions": None},
        }
        return {n: v for n, v in found.items() if n not in usual or v != usual[n]}

    @classmethod
    def from_dict(cls, settings: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; what is left out takes its default.

        Raises:
            ConfigurationError: if a field is unknown or of the wrong kind.
        """
        _check(isinstance(settings, Mapping), "settings", "a mapping", settings)
        unknown = [str(name) for name in settings if name not in _FIELDS]
        if unknown:
            raise ConfigurationError(
                f"a data source has {', '.join(_FIELDS)}. Received: {', '.join(unknown)}."
            )
        found = dict(settings)
        if "split" in found:
            _check(isinstance(found["split"], Mapping), "split", "a mapping", found["split"])
            found["split"] = DataSplit.from_dict(found["split"])
        return cls(**found)


_FUNCTIONS: dict[SourceFormat, str] = {
    "digits": "digits",
    **{name: f"from_{name}" for name in FORMATS if name not in ("digits", "table")},
}


def _check(right: bool, name: str, rule: str, value: Any) -> None:
    if not right:
        raise ConfigurationError(f"`{name}` must be {rule}. Received: {name}={value!r}.")


def _texts(name: str, value: Any) -> tuple[str, ...]:
    several = isinstance(value, list | tuple)
    items = tuple(cast("list[Any]", value)) if several else ()
    right = several and all(isinstance(item, str) for item in items)
    _check(right and len(set(items)) == len(items), name, "different names", value)
    return items


def _classes(value: Any) -> Any:
    if value == "infer" or _is_count(value):
        return value
    if isinstance(value, str) or not value:
        _check(False, "classes", '"infer", a number, or their names', value)
    return _texts("classes", value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _as_list(classes: Any) -> Any:
    return list(classes) if isinstance(classes, tuple) else classes  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
