"""Image labels from the folder, a part of the file name, a function, or a mask file."""

import contextlib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

import numpy as np

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError, DataError

from ._skipped import UnusableItem as UnusableItem
from .dataset import Array
from .wording import listed


@configuration
class PatternLabel(Configuration):
    r"""Use a part of the file name, without folder and extension, as label.

    Example:
        >>> PatternLabel(pattern="_").of("/data/cat_017.jpg")
        'cat'
        >>> PatternLabel(pattern=r"is-(\w+)", group=1).of("/data/17 is-cat.jpg")
        'cat'
    """

    pattern: str = option(
        help="Regular expression. With `position`, the name is split at its matches."
    )
    position: int = option(
        default=0, help="Index of the part, from 0, or from -1 for the last part."
    )
    group: int | str | None = option(
        default=None,
        form=False,
        help="Number or name of a group of `pattern`. The name is then searched, not split.",
    )

    def _check(self) -> None:
        try:
            compiled = re.compile(self.pattern)
        except re.error as error:
            raise ConfigurationError(
                f"`pattern` must be a regular expression. Received: pattern={self.pattern!r}, "
                f"{error}."
            ) from None
        known = [*range(compiled.groups + 1), *compiled.groupindex]
        if self.group is not None and self.group not in known:
            raise ConfigurationError(
                f"`group` must be a group of the pattern, one of {known}. "
                f"Received: group={self.group!r}, pattern={self.pattern!r}."
            )

    def of(self, url: str) -> str:
        """Return the label of the file at `url`.

        Raises:
            UnusableItem: if the name has no such part.
        """
        name = stem(url)
        match, found = re.search(self.pattern, name), None
        if match is not None and self.group is not None:
            found = match[self.group]
        elif match is not None:
            parts = re.split(self.pattern, name)
            if -len(parts) <= self.position < len(parts):
                found = parts[self.position]
        if not found:
            why = "it has no such part" if match else "the pattern does not match the name"
            raise UnusableItem(
                "no label",
                f"the name of each image must hold its label. Received: {url} with {self}; {why}. "
                "Rename the file, or change the pattern.",
            )
        return found


@configuration
class MaskFile(Configuration):
    """Use a mask file with one class per pixel as label, for segmentation.

    By default, the mask of `photos/a.jpg` is `photos/a.png`; with `folder="masks"` it is
    `masks/a.png`, with `suffix="_mask"` it is `photos/a_mask.png`. Masks must have one channel, or
    a palette whose indices are the classes; they are resized by nearest neighbor. If images and
    masks have the same extension, set `folder` or `suffix`.
    """

    folder: str | None = option(
        default=None, none_text="the image's own", help="Name of a sibling of the image's folder."
    )
    suffix: str = option(default="", help="Text appended to the image's name, as in `_mask`.")
    extension: str = option(default="png", help="Extension of the masks.")
    binary: bool = option(
        default=False,
        help="False: (height, width) int32 values. True: (height, width, 1) float32, 1 where "
        "the value is above 0.",
    )

    def of(self, url: str) -> str:
        """Return the URL of the mask of the image at `url`."""
        parent, _, _ = url.rpartition("/")
        if self.folder is not None:
            parent = f"{parent.rpartition('/')[0]}/{self.folder}"
        return f"{parent}/{stem(url)}{self.suffix}.{self.extension.lstrip('.')}"


Label: TypeAlias = Literal["parent"] | PatternLabel | MaskFile | Callable[[str], Any] | None


def check_label(label: Any) -> None:
    known = label is None or label == "parent" or isinstance(label, PatternLabel | MaskFile)
    if not known and (isinstance(label, str | type) or not callable(label)):
        raise ConfigurationError(
            '`label` must be "parent", a PatternLabel, a MaskFile, a function of the URL, or None. '
            f"Received: label={label!r}."
        )


def is_in_path(label: Label) -> bool:
    """Whether labels come from the URL alone, without a user function."""
    return label == "parent" or isinstance(label, PatternLabel)


def found_label(label: Label, url: str) -> Any:
    """Return the label of the image at `url`, from its path or the user's function."""
    if isinstance(label, PatternLabel):
        return label.of(url)
    if label == "parent":
        parent = url.rpartition("/")[0].rpartition("/")[2]
        if not parent:
            raise UnusableItem(
                "no label",
                "the folder of each image must be its label. Received: "
                f"{url} without a folder. Use another `label`.",
            )
        return parent
    assert callable(label)
    failure, received = None, "None"
    try:
        if (found := label(url)) is not None:
            return found
    except Exception as error:
        failure, received = error, f"{type(error).__name__}: {error}"
    raise UnusableItem(
        "no label",
        f"the `label` function must return a label for each image. Received: {received} for {url}.",
    ) from failure


def collect_classes(label: Label, urls: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct labels of the URLs, sorted; URLs without a label are ignored."""
    found: set[str] = set()
    for url in urls:
        with contextlib.suppress(UnusableItem):
            found.add(found_label(label, url))
    return tuple(sorted(found))


def check_found_classes(found: tuple[str, ...], label: Label, place: str, example: str) -> None:
    """Raise unless `collect_classes` found at least two classes."""
    if len(found) > 1:
        return
    if found:
        received = f"only {found[0]!r}"
    else:
        try:
            received = f"none; {found_label(label, example)!r}"
        except UnusableItem as error:
            received = f"none: {error.reason}; {error.message}"
    raise DataError(
        "the paths of images must hold at least two classes. Received: "
        f"{received}, in {place} with label={label!r}. If names begin with the class, as in "
        '`cat_017.jpg`, use `label=PatternLabel(pattern="_")`. If all images have the same class, '
        "list all classes: `classes=[…]`. Without labels, use `label=None`."
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelEncoder:
    """Encoder of labels: class names become numbers, or float32 rows with `one_hot`."""

    classes: tuple[str, ...] | None
    one_hot: bool

    def encode(self, found: Any, url: str) -> Array:
        """Encode one example's label: a scalar int32 or float32, or an array."""
        classes = self.classes
        if isinstance(found, str):
            return self._class(self._number(found, url), url)
        try:
            array = np.asarray(found)
        except ValueError:  # lists of unequal length
            array = np.empty(0)
        value: Any = array.item() if array.ndim == 0 else None
        if isinstance(value, Real):
            if isinstance(value, Integral) or (classes is not None and value == value // 1):
                return self._class(int(value), url)  # pyright: ignore[reportArgumentType]
            if classes is None:
                return np.asarray(value, np.float32)
        if classes is not None and (self.one_hot or array.ndim == 0):
            raise UnusableItem(
                "unusable label",
                "with `classes`, a label must be a class name or its number"
                f"{', not an array, with `one_hot=True`' if self.one_hot else ''}. "
                f"Received: {found!r:.80} for {url}. Otherwise omit `classes` and `one_hot`.",
            )
        if array.dtype.kind not in "biuf" or not array.size:
            raise UnusableItem(
                "unusable label",
                "a label must be a class name, a number, or an array of numbers. "
                f"Received: {found!r:.80} for {url}.",
            )
        if array.dtype == np.float64:
            return array.astype(np.float32)
        if array.dtype.name not in ("int64", "uint64", "uint32"):
            return array
        if array.min() < -(2**31) or array.max() >= 2**31:
            raise UnusableItem(
                "unusable label",
                "whole numbers in a label must fit into 32 bits. "
                f"Received: {array.min()} to {array.max()} for {url}.",
            )
        return array.astype(np.int32)

    def _number(self, name: str, url: str) -> int:
        if self.classes is None:
            raise UnusableItem(
                "unusable label",
                "a `label` function that returns names needs `classes`, the list of all names. "
                f"Received: {name!r} for {url}.",
            )
        if name not in self.classes:
            raise UnusableItem(
                "unknown class",
                f"each label must be one of `classes`: {listed(self.classes)}. "
                f"Received: {name!r} for {url}.",
            )
        return self.classes.index(name)

    def _class(self, number: int, url: str) -> Array:
        lowest, limit = (-(2**31), 2**31) if self.classes is None else (0, len(self.classes))
        if not lowest <= number < limit:
            raise UnusableItem(
                "unknown class",
                f"each label must be a whole number from {lowest} to {limit - 1}. "
                f"Received: {number} for {url}.",
            )
        if self.one_hot:
            return (np.arange(limit) == number).astype(np.float32)
        return np.asarray(number, np.int32)


def check_classes(
    classes: Sequence[str] | None, *, label: Label, one_hot: bool
) -> tuple[str, ...] | None:
    """Validate `classes`; return them as a tuple."""
    known = None
    if classes is not None:
        several = isinstance(classes, Iterable) and not isinstance(classes, str)
        known = tuple(classes) if several else ()
        texts = all(isinstance(name, str) and name for name in known)
        if not known or not texts or len(set(known)) < len(known):
            raise ConfigurationError(
                '`classes` must be a list of unique names, such as ["cat", "dog"], or None: those '
                f"in the paths. Received: classes={classes!r}."
            )
    if one_hot and (isinstance(label, MaskFile) or (known is None and not is_in_path(label))):
        raise ConfigurationError(
            '`one_hot=True` needs labels that are classes: `label="parent"`, a PatternLabel, or a '
            f"function together with `classes`. Received: label={label!r}, classes={classes!r}."
        )
    return known


def stem(url: str) -> str:
    """Return the name of a file without folder and extension."""
    return PurePosixPath(url).stem
