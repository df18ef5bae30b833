"""Labels of images: from the folder, from the name, from a function, or a mask file beside them."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, TypeAlias

import numpy as np

from sparkwright.data._dataset import Array
from sparkwright.errors import ConfigurationError


class UnusableItem(Exception):
    """An image that cannot be used, and why.

    Attributes:
        reason: a few words, the same for all items of a kind.
        message: rule, what was received with the file's name, remedy.
    """

    def __init__(self, reason: str, message: str) -> None:
        """Both texts."""
        super().__init__(message)
        self.reason, self.message = reason, message


@dataclass(frozen=True, kw_only=True, slots=True)
class PatternLabel:
    r"""The label is a part of the file's name (without folder and extension).

    Attributes:
        pattern: regular expression. With `position` the name is split wherever it matches.
        position: which of the parts, from 0, or from -1 at the end; default 0.
        group: number or name of a group of `pattern`, which is searched in the name; instead of
            splitting. Default None.

    Example:
        >>> PatternLabel(pattern="_").of("/data/cat_017.jpg")
        'cat'
        >>> PatternLabel(pattern=r"is-(\w+)", group=1).of("/data/17 is-cat.jpg")
        'cat'
    """

    pattern: str
    position: int = 0
    group: int | str | None = None

    def __post_init__(self) -> None:
        """Refuse what is no pattern, or lacks the group."""
        try:
            compiled = re.compile(self.pattern)
        except (re.error, TypeError) as error:
            raise ConfigurationError(
                f"`pattern` must be a regular expression. Received: pattern={self.pattern!r}, "
                f"{error}."
            ) from None
        if isinstance(self.position, bool) or not isinstance(self.position, int):
            raise ConfigurationError(
                f"`position` must be an integer. Received: position={self.position!r}."
            )
        known = [*range(compiled.groups + 1), *compiled.groupindex]
        if self.group is not None and self.group not in known:
            raise ConfigurationError(
                f"`group` must be a group of the pattern, one of {known}. "
                f"Received: group={self.group!r}, pattern={self.pattern!r}."
            )

    def of(self, url: str) -> str:
        """The label of the file at `url`.

        Raises:
            UnusableItem: if the name has no such part.
        """
        name = stem(url)
        if self.group is not None:
            match = re.search(self.pattern, name)
            found = match[self.group] if match else None
        else:
            parts = re.split(self.pattern, name)
            # One part: the pattern is not in the name, and the whole name is nobody's class.
            here = len(parts) > 1 and -len(parts) <= self.position < len(parts)
            found = parts[self.position] if here else None
        if not found:
            there = re.search(self.pattern, name) is not None
            why = "it has no such part" if there else "the pattern is not in the name"
            raise UnusableItem(
                "no label",
                f"the name of each image must hold its label. Received: {url} with {self}; {why}. "
                "Rename the file, or change the pattern.",
            )
        return found


@dataclass(frozen=True, kw_only=True, slots=True)
class MaskFile:
    """The label is an image beside the image: one class a pixel, for segmentation.

    `photos/a.jpg` has the mask `photos/a.png`; with `folder="masks"`, `masks/a.png`; with
    `suffix="_mask"`, `photos/a_mask.png`. Masks must have one channel, or a palette whose indices
    are the classes; they are resized by nearest neighbour. Images that end as masks do need
    `folder` or `suffix`.

    Attributes:
        folder: name of the folder, beside the image's; default None: the image's own.
        suffix: what the mask's name has after the image's; default none.
        extension: of masks; default "png".
        binary: False (default): (height, width) int32 of the values as they are. True:
            (height, width, 1) float32, 1 where the value is above 0.
    """

    folder: str | None = None
    suffix: str = ""
    extension: str = "png"
    binary: bool = False

    def __post_init__(self) -> None:
        """Refuse what is no part of a name."""
        for name in ("folder", "suffix", "extension"):
            value = getattr(self, name)
            if not (isinstance(value, str) or (name == "folder" and value is None)):
                raise ConfigurationError(f"`{name}` must be text. Received: {name}={value!r}.")

    def of(self, url: str) -> str:
        """The URL of the mask of the image at `url`."""
        parent, _, _ = url.rpartition("/")
        if self.folder is not None:
            parent = f"{parent.rpartition('/')[0]}/{self.folder}"
        return f"{parent}/{stem(url)}{self.suffix}.{self.extension.lstrip('.')}"


Label: TypeAlias = Literal["parent"] | PatternLabel | MaskFile | Callable[[str], Any] | None


def check_label(label: Any) -> None:
    """Refuse what is no source of labels.

    Raises:
        ConfigurationError: naming the option.
    """
    known = label is None or label == "parent" or isinstance(label, PatternLabel | MaskFile)
    if not known and (isinstance(label, str | type) or not callable(label)):
        raise ConfigurationError(
            '`label` must be "parent", a PatternLabel, a MaskFile, a function of the URL, or None. '
            f"Received: label={label!r}."
        )


def is_in_path(label: Label) -> bool:
    """Whether the class is known from the URL alone, without calling the user's function."""
    return label == "parent" or isinstance(label, PatternLabel)


def found_label(label: Label, url: str) -> Any:
    """What the URL says, or the user's function.

    Raises:
        UnusableItem: if that is nothing, or the function fails.
    """
    if isinstance(label, PatternLabel):
        return label.of(url)
    if label == "parent":
        parent = url.rpartition("/")[0].rpartition("/")[2]
        if not parent:
            raise UnusableItem(
                "no label",
                "the folder of each image must be its label. Received: "
                f"{url}, which has no folder. Use another `label`.",
            )
        return parent
    assert callable(label)
    try:
        found = label(url)
    except Exception as error:
        raise UnusableItem(
            "no label",
            "the `label` function must return a label for each image. Received: "
            f"{type(error).__name__}: {error} for {url}.",
        ) from error
    if found is None:
        raise UnusableItem(
            "no label",
            f"the `label` function must return a label for each image. Received: None for {url}.",
        )
    return found


@dataclass(frozen=True, kw_only=True, slots=True)
class LabelEncoder:
    """Makes numbers of labels.

    Attributes:
        classes: their names, in the order of their numbers; None if labels are no classes.
        one_hot: (classes,) float32 instead of an int32 number.
    """

    classes: tuple[str, ...] | None
    one_hot: bool

    def encode(self, found: Any, url: str) -> Array:
        """One example's label: a scalar int32 or float32, or an array.

        Text becomes its class number; 64-bit numbers become 32-bit ones. With `classes` a whole
        float, such as 1.0, is a class number too; with `one_hot` nothing else is a label.

        Raises:
            UnusableItem: naming `url`, if that cannot be done.
        """
        if isinstance(found, str):
            return self._class(self._number(found, url))
        try:
            array = np.asarray(found)
        except ValueError:  # lists of unequal length
            array = np.empty(0)
        if array.ndim == 0 and isinstance(array.item(), Integral | Real):
            value = array.item()
            if isinstance(value, Integral) or (self.classes is not None and value == value // 1):
                return self._class(self._checked(int(value), url))
            if self.classes is None:
                return np.asarray(value, np.float32)
        if self.classes is not None and (self.one_hot or array.ndim == 0):
            raise UnusableItem(
                "unusable label",
                "where there are `classes`, a label must be a class name or its number"
                f"{', not an array, with `one_hot=True`' if self.one_hot else ''}. "
                f"Received: {found!r:.80} for {url}. Or leave `classes` and `one_hot` out.",
            )
        if array.dtype.kind not in "biuf" or not array.size:
            raise UnusableItem(
                "unusable label",
                "a label must be a class name, a number, or an array of numbers. "
                f"Received: {found!r:.80} for {url}.",
            )
        return _in_32_bits(array, url)

    def _number(self, name: str, url: str) -> int:
        if self.classes is None:
            raise UnusableItem(
                "unusable label",
                "a `label` function that returns names needs `classes`, the list of all of them. "
                f"Received: {name!r} for {url}.",
            )
        if name not in self.classes:
            raise UnusableItem(
                "unknown class",
                f"each label must be one of `classes`: {_listed(self.classes)}. "
                f"Received: {name!r} for {url}.",
            )
        return self.classes.index(name)

    def _checked(self, number: int, url: str) -> int:
        limit = 2**31 if self.classes is None else len(self.classes)
        lowest = -(2**31) if self.classes is None else 0
        if not lowest <= number < limit:
            raise UnusableItem(
                "unknown class",
                f"each label must be a whole number from {lowest} to {limit - 1}. "
                f"Received: {number} for {url}.",
            )
        return number

    def _class(self, number: int) -> Array:
        if not self.one_hot:
            return np.asarray(number, np.int32)
        assert self.classes is not None
        encoded = np.zeros(len(self.classes), np.float32)
        encoded[number] = 1
        return encoded


def check_classes(
    classes: Sequence[str] | None, *, label: Label, one_hot: bool
) -> tuple[str, ...] | None:
    """`classes` as a tuple.

    Raises:
        ConfigurationError: if a name is double or no text, or `one_hot` has no classes.
    """
    known = None
    if classes is not None:
        if not isinstance(classes, Iterable):
            raise ConfigurationError(
                '`classes` must be a list of the names, as ["cat", "dog"], or None: those that '
                f"the paths tell. Received: classes={classes!r}."
            )
        known = (classes,) if isinstance(classes, str) else tuple(classes)
        texts = all(isinstance(name, str) and name for name in known)
        if isinstance(classes, str) or not known or not texts or len(set(known)) < len(known):
            raise ConfigurationError(
                "`classes` must be a list of different names, or None. "
                f"Received: classes={classes!r}."
            )
    if one_hot and (isinstance(label, MaskFile) or (known is None and not is_in_path(label))):
        raise ConfigurationError(
            '`one_hot=True` needs labels that are classes: `label="parent"`, a PatternLabel, or a '
            f"function together with `classes`. Received: label={label!r}, classes={classes!r}."
        )
    return known


def stem(url: str) -> str:
    """The name of a file without folder and extension."""
    name = url.rpartition("/")[2]
    before, dot, _ = name.rpartition(".")
    return before if dot and before else name


def _in_32_bits(array: Array, url: str) -> Array:
    if array.dtype == np.float64:
        return array.astype(np.float32)
    if array.dtype.name in ("int64", "uint64", "uint32"):
        if array.min() < -(2**31) or array.max() >= 2**31:
            raise UnusableItem(
                "unusable label",
                "whole numbers in a label must fit into 32 bits. "
                f"Received: {array.min()} to {array.max()} for {url}.",
            )
        return array.astype(np.int32)
    return array


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:10])
    return shown if len(names) <= 10 else f"{shown} and {len(names) - 10} more"
