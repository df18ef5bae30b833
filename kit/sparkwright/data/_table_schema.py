"""The mapping of table columns to arrays; reusable, so that other files are read the same way."""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from sparkwright.data._skipped import UnusableItem
from sparkwright.data.wording import listed
from sparkwright.errors import ConfigurationError

Statistic = Literal["mean", "median"]
Missing = Literal["error", "skip", "mean", "median"] | float


@dataclass(frozen=True, kw_only=True, slots=True)
class TableSchema:
    """The mapping of table columns to the arrays of a DataSet.

    `from_csv`, `from_parquet` and `from_arrow` set it as `data.schema`. Pass it to another call
    (`schema=train.schema`) to read other files the same way, with the same classes.

    Attributes:
        columns: all columns of the table, in order.
        features: input name -> its columns, in order. Each input is a (n, width) float32 array,
            unless its columns are in `text`.
        labels: output name -> its columns; one column gives (n,), several give (n, columns).
        classes: output name -> class names or number of classes. Labels of these outputs are int32
            indices; other labels are float32 numbers.
        one_hot: whether class labels become (n, classes) float32 instead; default False.
        categories: text column -> its values; the column becomes one 0/1 feature per value.
        text: feature columns that stay text, in separate inputs: (n, width) arrays of `str`.
        shapes: column of arrays -> shape of one array. Such columns are flattened into their input,
            unless they are its only column.
        weights: column of example weights, or None.
        missing: treatment of missing values: "error", "skip" (skip and count the rows), a number
            that replaces missing numbers in features, or "mean" or "median" (uses `fills`).
        fills: feature name, from `feature_names` -> mean or median of the training data.
    """

    columns: tuple[str, ...]
    features: Mapping[str, tuple[str, ...]]
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    classes: Mapping[str, tuple[str, ...] | int] = field(
        default_factory=dict[str, tuple[str, ...] | int]
    )
    one_hot: bool = False
    categories: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    text: tuple[str, ...] = ()
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict[str, tuple[int, ...]])
    weights: str | None = None
    missing: Missing = "error"
    fills: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        """Validate the fields and their consistency.

        Raises:
            ConfigurationError: if an option is invalid.
        """
        repeated = [name for name, count in Counter(self.columns).items() if count > 1]
        _require(
            not repeated,
            f"column names must be unique. Received: {listed(repeated)} more than once. For CSV "
            "files, replace them with `column_names`.",
        )
        _require(
            bool(self.features) and all(self.features.values()),
            "`features` must name at least one column for each input. Received: "
            f"features={dict(self.features)!r}; columns are {listed(self.columns)}.",
        )
        _require(
            all(self.labels.values()),
            "`labels` must name at least one column for each output. Received: "
            f"labels={dict(self.labels)!r}.",
        )
        unknown = sorted(set(self.used) - set(self.columns))
        _require(
            not unknown,
            f"a schema can only use columns in `columns`. Received: {listed(unknown)}; columns are "
            f"{listed(self.columns)}.",
        )
        features = {name for columns in self.features.values() for name in columns}
        self._check_classes()
        strangers = sorted(set(self.categories) - features)
        _require(
            not strangers,
            f"`categories` must name feature columns. Received: {listed(strangers)}.",
        )
        for column, values in self.categories.items():
            check_values("categories", column, values)
        self._check_text(features)
        numbers = (features - set(self.categories) - set(self.text)) | {self.weights or ""}
        for output, columns in self.labels.items():
            if output not in self.classes or isinstance(self.classes[output], int):
                numbers |= set(columns)
        both = sorted(numbers & self.texts)
        _require(
            not both,
            f"a column must be read either as text or as numbers. Received: both for "
            f"{listed(both)}. For text features, set `categories` or `text`.",
        )
        check_missing(self.missing)
        needed = {name for each in self.features for name in self.numbers(each).values()}
        _require(
            set(self.fills) == (needed if self.missing in get_args(Statistic) else set()),
            '`fills` must name each numeric feature if `missing` is "mean" or "median", and be '
            f"empty otherwise. Received: {listed(self.fills)} with missing={self.missing!r}.",
        )

    def _check_text(self, features: set[str]) -> None:
        strangers = sorted(set(self.text) - (features - set(self.categories)))
        _require(
            not strangers,
            "`text` must name feature columns that are not in `categories`. Received: "
            f"{listed(strangers)}.",
        )
        for name, columns in self.features.items():
            mixed = set(columns) - set(self.text)
            _require(
                not mixed or len(mixed) == len(columns),
                f"an input must have either text or numbers. Received: both for {name!r}. Use "
                "separate inputs: `features={'text': […], 'numbers': […]}`.",
            )

    def _check_classes(self) -> None:
        strangers = sorted(set(self.classes) - set(self.labels))
        _require(
            not strangers,
            f"`classes` must name outputs of `labels`. Received: {listed(strangers)}; outputs are "
            f"{listed(self.labels)}.",
        )
        for output, classes in self.classes.items():
            check_values("classes", output, classes)
        for output, columns in self.labels.items() if self.one_hot else ():
            _require(
                output in self.classes and len(columns) == 1,
                "`one_hot` needs one label column with `classes` for each output. Received: "
                f"output {output!r} with the columns {listed(columns)} and "
                f"classes={self.classes.get(output)!r}.",
            )

    @property
    def used(self) -> tuple[str, ...]:
        """The columns to read, without duplicates."""
        groups = [*self.features.values(), *self.labels.values()]
        names = [name for group in groups for name in group]
        return tuple(dict.fromkeys(names + ([self.weights] if self.weights is not None else [])))

    @property
    def texts(self) -> frozenset[str]:
        """The used columns of text: `text`, categories, and labels with class names."""
        named = [o for o, classes in self.classes.items() if not isinstance(classes, int)]
        return frozenset((*self.text, *self.categories)).union(
            *(self.labels[output] for output in named)
        )

    @property
    def class_names(self) -> dict[str, tuple[str, ...]]:
        """Output name -> class names, for outputs with class names."""
        return {o: c for o, c in self.classes.items() if not isinstance(c, int)}

    def numbers(self, name: str = "features") -> dict[int, str]:
        """Return position in an input -> feature name, for the numeric columns of the table."""
        columns = self.features[name]
        sources = [column for column in columns for _ in range(self.width(column))]
        names = enumerate(zip(self.feature_names(name), sources, strict=True))
        other = {*self.categories, *self.text}
        return {place: feature for place, (feature, column) in names if column not in other}

    def width(self, column: str) -> int:
        """Return the number of features that a column becomes."""
        if column in self.categories:
            return len(self.categories[column])
        return math.prod(self.shapes.get(column, ()))

    def feature_names(self, name: str = "features") -> tuple[str, ...]:
        """Return the names of the features of an input, such as `age`, `color=red`, `pixels[3]`.

        Args:
            name: name of the input; default "features".
        """
        found: list[str] = []
        for column in self.features[name]:
            if column in self.categories:
                found += [f"{column}={value}" for value in self.categories[column]]
            elif column in self.shapes:
                found += [f"{column}[{index}]" for index in range(self.width(column))]
            else:
                found.append(column)
        return tuple(found)

    def without_labels(self) -> "TableSchema":
        """Return a copy without labels and weights, for tables to predict from."""
        return replace(self, labels={}, classes={}, one_hot=False, weights=None)

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON types; `from_dict` is the inverse."""
        # JSON has no NaN.
        missing = self.missing if isinstance(self.missing, str) else {"number": str(self.missing)}
        content = asdict(self) | {"missing": "error"}
        return {"name": "TableSchema", **json.loads(json.dumps(content)), "missing": missing}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> "TableSchema":
        """Create a schema from the output of `to_dict`.

        Raises:
            ConfigurationError: if `content` is invalid.
        """
        try:
            given = {name: _with_tuples(value) for name, value in content.items()}
            if given.pop("name") != "TableSchema":
                raise ValueError(content["name"])
            if isinstance(given["missing"], Mapping):
                given["missing"] = float(given["missing"]["number"])
            return cls(**given)
        except ConfigurationError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(
                "a schema must be the output of `TableSchema.to_dict`. Received: "
                f"{str(content)[:200]!r} ({type(error).__name__}: {error})."
            ) from None


def _with_tuples(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _with_tuples(inner) for name, inner in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return tuple(map(_with_tuples, value)) if isinstance(value, list) else value  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def check_missing(missing: Any) -> None:
    """Raise unless `missing` is a known word or a number, which may be NaN but not infinite."""
    number = isinstance(missing, int | float) and not isinstance(missing, bool)
    _require(
        missing in ("error", "skip", *get_args(Statistic)) or (number and not math.isinf(missing)),
        '`missing` must be "error", "skip", "mean", "median" or a number that replaces missing '
        "ones. "
        f"Received: missing={missing!r}.",
    )


def check_classes(classes: Any) -> None:
    """Raise unless `classes` is "infer", or a number or names of at least 2 classes."""
    if not (isinstance(classes, str) and classes == "infer"):
        values = tuple(classes) if isinstance(classes, list) else classes  # pyright: ignore[reportUnknownVariableType]
        check_values("classes", "the labels", values, least=2)


def check_values(option: str, name: str, values: Any, *, least: int = 1) -> None:
    """Raise unless `values` is a number of classes or a tuple of unique names, at least `least`."""
    accepted = "unique values"
    fits = isinstance(values, tuple) and len(set(map(str, values))) == len(values)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if option == "classes":
        accepted = f"a number of at least {least}, or unique names"
        fits |= isinstance(values, int) and not isinstance(values, bool) and values >= least
    _require(fits, f"`{option}` must be {accepted}. Received: {option}={values!r} for {name!r}.")
    _require(
        not isinstance(values, tuple) or len(values) >= least,
        f"`{option}` must have at least {least}. Received: {option}={values!r} for {name!r}.",
    )


def check_columns(reader: Any, found: tuple[str, ...], url: str, *, reason: str) -> None:
    """Raise UnusableItem unless a file with the columns `found` has those of `reader`."""
    rule = ""
    if reader.is_exact and found != reader.names:
        rule = f"all files must have the columns of the first, {listed(reader.names)}"
    elif any(found.count(name) != 1 for name in reader.used):
        rule = f"the file must have each of the columns {listed(reader.used)} once"
    if rule:
        raise UnusableItem(reason, f"{url}: {rule}. Received: {listed(found)}.")


def _require(fits: bool, message: str) -> None:
    if not fits:
        raise ConfigurationError(message)
