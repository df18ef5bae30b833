"""Data sources as configuration: a reader of `sparkwright.data`, its arguments and a split."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._data_split import DataSplit
from sparkwright.data._filling import fill_missing
from sparkwright.data._table_schema import Statistic, check_values
from sparkwright.data.formats import (
    FORMATS,
    IMAGE_OPTIONS,
    FormatInfo,
    ImageChoice,
    SourceFormat,
)
from sparkwright.errors import ConfigurationError
from sparkwright.python_code import Expression, call_to_code, to_code

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sparkwright.data._distributed import DistributedDataSet

DataTask = Literal["classification", "regression", "other"]


@configuration
class DataSource(Configuration):
    """A description of data, its columns and its split, from which `load(spark)` reads it.

    A source may be incomplete while a user edits it: `problem` describes what is missing.

    Raises:
        ConfigurationError: if a field is invalid.

    Example:
        >>> source = DataSource(format="csv", url="iris.csv", label="species")
        >>> print(source.to_code(), end="")
        data = sw.data.from_csv(spark, "iris.csv", labels="species", classes="infer")
        >>> DataSource.from_dict(source.to_dict()) == source
        True
    """

    format: SourceFormat = option(
        default="digits", help="Format of the data. The default is a bundled data set of images."
    )
    url: str = option(
        default="",
        help='A file, a folder or a pattern in any file system; with "table" the table\'s name.',
    )
    features: tuple[str, ...] = option(
        default=(),
        help='Columns that become the features; none: all but the label. With "tfrecord", keys.',
    )
    label: str | None = option(default=None, none_text="none", help="The column to predict.")
    categories: tuple[str, ...] = option(
        default=(),
        help="Text columns among the features; each is one-hot encoded: one 0/1 feature for every "
        "value that occurs.",
    )
    task: DataTask = option(
        default="classification",
        help='"classification": the label is a class. "regression": a number. "other": numbers or '
        "no label.",
    )
    classes: Literal["infer"] | int | tuple[str, ...] = option(
        default="infer",
        form=False,
        help='Classes for classification. "infer": all values in the data. A count: labels are '
        "integers from 0. A list: class names in order.",
    )
    options: Mapping[str, Any] = option(
        default_factory=dict,
        form=False,
        help="Other arguments of the reader that differ from their defaults.",
    )
    partitions: int | None = option(
        default=None,
        minimum=1,
        none_text="automatic",
        help="Partitions of the distributed data.",
    )
    split: DataSplit = option(
        default_factory=DataSplit, help="Into training, validation and test data."
    )

    def _check(self) -> None:
        classes: Any = self.classes
        if isinstance(classes, list | tuple):
            names: list[Any] = list(classes)  # pyright: ignore[reportUnknownArgumentType]
            object.__setattr__(self, "classes", tuple(map(str, names)))
        if classes != "infer":
            check_values("classes", "the label", self.classes)
        for name in ("features", "categories"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "options", self._checked_options())

    def _checked_options(self) -> dict[str, Any]:
        if not isinstance(self.options, Mapping):
            raise ConfigurationError(
                f"`options` must be a mapping. Received: options={self.options!r:.200}."
            )
        known = {each.name: each for each in self.info.options}
        found: dict[str, Any] = {}
        for name, value in self.options.items():
            if name not in known:
                raise ConfigurationError(
                    f"`options` of {self.format} must be some of {', '.join(known) or 'none'}. "
                    f"Received: {name}."
                )
            words = dict(known[name].words)
            value = words.get(value, value) if isinstance(value, str) else value
            known[name].check(value)
            value = tuple(value) if known[name].kind == "texts" else value  # JSON has only lists
            if value != known[name].default:
                found[name] = value
        return found

    @property
    def info(self) -> FormatInfo:
        """The format's reader, options and properties."""
        return FORMATS[self.format]

    @property
    def all_options(self) -> dict[str, Any]:
        """All options of the format, including those at their defaults."""
        return {each.name: each.default for each in self.info.options} | dict(self.options)

    @property
    def problem(self) -> str | None:
        """One sentence on a missing or inconsistent field; None: the source can be loaded."""
        info = self.info
        if info.needs_url and not self.url.strip():
            what = (
                "the table's name"
                if self.format == "table"
                else "a path, or a URL such as hdfs://…"
            )
            return f"Enter the location of the data: {what}."
        if info.labeled and self.label is None and self.task != "other":
            return 'Select the label column, or the task "other" for data without labels.'
        if self.label is not None and self.label in self.features:
            return f"The label {self.label!r} must not be among the features."
        strangers = [each for each in self.categories if each not in self.features]
        if self.features and strangers:
            return f"The category {strangers[0]!r} must be among the features."
        if self.format in ("table", "tfrecord") and not self.features:
            return f"Select the features of the {info.title}: there is no default."
        try:
            _ = self.arguments
            if self.format == "csv":
                self.csv_format()
        except ConfigurationError as error:
            return str(error)
        return None

    @property
    def arguments(self) -> dict[str, Any]:
        """The reader's arguments after the URL, without those at their defaults.

        Raises:
            ConfigurationError: if an option is invalid.
        """
        found: dict[str, Any] = {}
        options = dict(self.options)
        if self.info.columns:
            if self.features:
                found["features"] = list(self.features)
            if self.label is not None:
                is_list = self.format in ("table", "tfrecord")
                found["labels"] = [self.label] if is_list else self.label
        has_labels = self.label is not None or options.get("labels_url") is not None
        if self.info.can_infer and has_labels and self.task == "classification":
            found["classes"] = _as_list(self.classes)
        if self.info.can_infer and self.info.labeled and self.categories:
            found["categories"] = dict.fromkeys(self.categories, "infer")
        if self.format == "images":
            own = {name: options.pop(name) for name in IMAGE_OPTIONS if name in options}
            choice = ImageChoice(**own)
            found = choice.arguments
            if self.classes != "infer" and choice.label_from in ("folder", "name"):
                if isinstance(self.classes, int):
                    raise ConfigurationError(
                        "`classes` of images must be their names. Received: "
                        f"classes={self.classes}. Leave them out: all that occur are found."
                    )
                found["classes"] = list(self.classes)
            if found["label"] == "parent":
                del found["label"]
        if self.partitions is not None and self.format != "table":
            options["partitions"] = self.partitions
        return {**found, **{name: _as_list(value) for name, value in options.items()}}

    def csv_format(self) -> CsvFormat:
        """The format of CSV files.

        Raises:
            ConfigurationError: if an option is invalid.
        """
        names = {each.name for each in fields(CsvFormat)}
        return CsvFormat(**{n: value for n, value in self.all_options.items() if n in names})

    def to_code(
        self, variable: str = "data", *, url: str | None = None, splits: bool = False
    ) -> str:
        """Return Python source that loads the same data; it uses `sw` (sparkwright) and `spark`.

        Args:
            variable: name of the data variable; default "data".
            url: Python expression for the URL, such as a name; default None: the URL's value.
            splits: whether the source of `split_code` follows; default False.

        Raises:
            ConfigurationError: if an option is invalid.
        """
        place: Any = self.url if url is None else Expression(url)
        first = [Expression("spark"), *([place] if self.info.needs_url else [])]
        if self.format == "table":
            first = [Expression(f"spark.table({to_code(place)})")]
        function = f"{variable} = sw.data.{self.info.reader.__name__}"
        arguments = self.arguments
        if splits and self._fills_later:
            arguments["missing"] = Expression('float("nan")')
        return call_to_code(function, *first, **arguments) + "\n"

    def split_code(self, variable: str = "data", *, seed: str | None = None) -> str:
        """Return Python source to append to `to_code(variable, splits=True)`, like `load_split`.

        Args:
            variable: name of the data variable; default "data".
            seed: Python expression for the seed; default None: the seed's value.
        """
        code = self.split.to_code(variable, seed=seed)
        if not self._fills_later:
            return code
        parts = list(map(Expression, self.split.shares))
        function = f"{', '.join(parts)} = sw.data.fill_missing"
        return code + call_to_code(function, *parts, by=self.options["missing"]) + "\n"

    @property
    def _fills_later(self) -> bool:
        """Whether missing values are filled with statistics of the training part of the split."""
        return self.options.get("missing") in get_args(Statistic) and len(self.split.shares) > 1

    def load(self, spark: "SparkSession") -> "DistributedDataSet":
        """Load the data on Spark; `classes="infer"` takes an additional pass over it.

        Raises:
            ConfigurationError: if the source is incomplete; see `problem`.
            DataError: if files are invalid.
            OSError: if a file cannot be read, naming its URL.
        """
        return self._load(spark)

    def _load(self, spark: "SparkSession", **other: Any) -> "DistributedDataSet":
        if self.problem is not None:
            raise ConfigurationError(f"the data source is not complete. {self.problem}")
        first: list[Any] = [spark, *([self.url] if self.info.needs_url else [])]
        if self.format == "table":
            first = [spark.table(self.url)]
        return self.info.reader(*first, **{**self.arguments, **other})

    def load_split(self, spark: "SparkSession") -> "dict[str, DistributedDataSet]":
        """Load the data and split it: name ("train", "validation", "test") -> data.

        Raises:
            Exception: the errors of `load`.
        """
        shares = self.split.shares
        if len(shares) < 2:
            return {"train": self.load(spark)}
        later = {"missing": math.nan} if self._fills_later else {}
        data = self._load(spark, **later)
        split = data.stratified_split if self.split.kind == "stratified" else data.random_split
        parts = split(list(shares.values()), seed=self.split.seed)
        if later:
            # Statistics of the training data only, so that the other parts stay independent.
            parts = fill_missing(*parts, by=self.options["missing"])
        return dict(zip(shares, parts, strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, without defaults, but always with format and split."""
        usual = Configuration.to_dict(type(self)())
        found = Configuration.to_dict(self).items()
        return {n: v for n, v in found if n in ("format", "split") or v != usual[n]}


def _as_list(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
