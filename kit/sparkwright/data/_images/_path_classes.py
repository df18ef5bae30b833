"""The classes that the paths of images tell."""

from collections.abc import Iterable

from sparkwright.errors import DataError

from ._image_labels import Label, UnusableItem, found_label


def collect_classes(label: Label, urls: Iterable[str]) -> tuple[str, ...]:
    """All labels that the URLs name, sorted; URLs without one are left for the reader to report.

    Example:
        >>> collect_classes("parent", ["/a/dog/1.png", "/a/cat/1.png", "/a/cat/2.png"])
        ('cat', 'dog')
    """
    found: set[str] = set()
    for url in urls:
        try:
            found.add(found_label(label, url))
        except UnusableItem:
            continue
    return tuple(sorted(found))


def check_found_classes(found: tuple[str, ...], label: Label, place: str, example: str) -> None:
    """Refuse classes from paths that leave nothing to tell apart.

    Args:
        found: what `collect_classes` has found.
        label: where.
        place: where the images lie, for the message.
        example: the URL of one of them.

    Raises:
        DataError: if there are fewer than two.
    """
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
        "the paths of images must tell at least two classes. Received: "
        f"{received}, in {place} with label={label!r}. If names begin with the class, as in "
        '`cat_017.jpg`: `label=PatternLabel(pattern="_")`. If these images are all of one class: '
        "`classes=[…]`, the names of all classes. Without labels: `label=None`."
    )
