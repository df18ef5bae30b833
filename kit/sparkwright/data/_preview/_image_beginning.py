"""Some images of a folder as small pictures, with their labels and what is odd about them."""

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkwright.data._image_decoding import ImageOptions, decode
from sparkwright.data._image_labels import MaskFile, UnusableItem, found_label, is_in_path
from sparkwright.data._sources._data_source import DataSource
from sparkwright.storage._files import is_folder, read_bytes
from sparkwright.storage._listing import list_files

from ._browsing import Entry, entries_of, still_wanted
from ._data_preview import DataPreview, DataProblem, ImageLook
from ._problems import label_problems

MOST_FOLDERS, MOST_FILES = 200, 200_000
_SIDE = 72
_LARGEST_BYTES = 64 << 20


def image_preview(source: DataSource, *, pictures: int) -> DataPreview:
    """Pictures of some images, evenly from all that were found.

    Args:
        source: of images.
        pictures: how many to look at.

    Raises:
        OSError: whatever the store says, naming the URL.
    """
    files, is_all = _listed(source)
    label: Any = source.image_label()
    if isinstance(label, MaskFile):
        masks = {label.of(file.url) for file in files}
        files = [file for file in files if file.url not in masks]
    problems: list[DataProblem] = []
    if not files:
        problems.append(DataProblem.error(f"There is no image at {source.url}."))
    labels: Counter[str] = Counter()
    if is_in_path(label):
        labels, more = _labels(source, [file.url for file in files])
        problems += more
        problems += label_problems(labels.most_common(), unit="image", is_all=is_all)
    looks: list[ImageLook] = []
    sizes: Counter[tuple[int, int]] = Counter()
    for file in _evenly(files, pictures):
        still_wanted()
        try:
            look = _look(source, file, _label_of(label, file.url))
        except UnusableItem as error:
            problems.append(DataProblem.error(error.message, can_skip=True))
            continue
        except OSError as error:
            problems.append(DataProblem.error(" ".join(str(error).split())))
            continue
        looks.append(look)
        sizes[look.size] += 1
    problems += _size_problems(sizes, source)
    every = source.all_options
    return DataPreview(
        source=source,
        unit="image",
        looked_at=len(looks),
        in_all=len(files) if is_all else None,
        images=tuple(looks),
        labels=tuple(labels.most_common()),
        class_count=len(labels) or None,
        feature_shape=(every["height"], every["width"], every["channels"]),
        files=len(files) if is_all else None,
        size_bytes=sum(file.size_bytes or 0 for file in files) if is_all else None,
        problems=tuple(problems),
        note="" if is_all else f"Only the first {len(files):,} images were listed.",
    )


def digits_preview(source: DataSource, *, pictures: int) -> DataPreview:
    """The bundled digits."""
    from PIL import Image
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    looks: list[ImageLook] = []
    for index in range(min(pictures, len(bunch.images))):
        pixels = np.asarray(bunch.images[index] * (255 / 16)).astype(np.uint8)
        image = Image.fromarray(pixels).resize((56, 56), Image.Resampling.BILINEAR)
        label = str(bunch.target[index])
        looks.append(ImageLook(png=_png(image), label=label, name=f"digit {label}", size=(28, 28)))
    counts = Counter(map(str, bunch.target.tolist()))
    return DataPreview(
        source=source,
        unit="image",
        looked_at=len(bunch.images),
        in_all=len(bunch.images),
        images=tuple(looks),
        labels=tuple(sorted(counts.items())),
        class_count=len(counts),
        feature_shape=(28, 28, 1),
    )


def _listed(source: DataSource) -> tuple[list[Entry], bool]:
    """Images at the source's place, and whether these are all: huge trees are not walked whole."""
    endings = tuple(f".{ending}" for ending in source.info.endings)
    recursive = bool(source.all_options["recursive"])
    if not is_folder(source.url):
        found = list_files(source.url, extensions=source.info.endings, recursive=recursive)
        listed = [
            Entry(
                name=f.url.rpartition("/")[2], url=f.url, is_folder=False, size_bytes=f.size_bytes
            )
            for f in found[:MOST_FILES]
        ]
        return listed, len(found) <= MOST_FILES
    files: list[Entry] = []
    waiting, looked_into = [source.url], 0
    while waiting and looked_into < MOST_FOLDERS and len(files) < MOST_FILES:
        still_wanted()
        looked_into += 1
        for entry in entries_of(waiting.pop(0)):
            if entry.is_folder and recursive:
                waiting.append(entry.url)
            elif not entry.is_folder and entry.name.lower().endswith(endings):
                files.append(entry)
    return sorted(files, key=lambda file: file.url), not waiting


def _labels(source: DataSource, urls: Sequence[str]) -> tuple[Counter[str], list[DataProblem]]:
    label: Any = source.image_label()
    counts: Counter[str] = Counter()
    without: list[UnusableItem] = []
    for url in urls:
        still_wanted()
        try:
            counts[str(found_label(label, url))] += 1
        except UnusableItem as error:
            without.append(error)
    problems: list[DataProblem] = []
    if without:
        more = f" So do {len(without) - 1:,} more images." if len(without) > 1 else ""
        problems.append(DataProblem.error(without[0].message + more, can_skip=True))
    if isinstance(source.classes, tuple):
        strangers = [name for name in counts if name not in source.classes]
        problems += [
            DataProblem.error(
                f"The label {name!r} is none of the classes. Add it, or move these images."
            )
            for name in strangers[:1]
        ]
    return counts, problems


def _label_of(label: Any, url: str) -> str:
    if not is_in_path(label):
        return ""
    try:
        return str(found_label(label, url))
    except UnusableItem:
        return ""


def _look(source: DataSource, file: Entry, label: str) -> ImageLook:
    from PIL import Image

    if (file.size_bytes or 0) > _LARGEST_BYTES:
        raise UnusableItem(
            "too large",
            f"{file.name} has {file.size_bytes:,} bytes, more than a preview reads.",
        )
    content = read_bytes(file.url)
    every = source.all_options
    options = ImageOptions(
        size=_thumbnail((every["height"], every["width"])),
        channels=every["channels"],
        resize="bilinear",
        upright=every["upright"],
    )
    pixels = decode(content, file.name, options)
    with Image.open(io.BytesIO(content)) as image:
        size = (image.height, image.width)
    small = Image.fromarray(pixels if every["channels"] == 3 else pixels[:, :, 0])
    return ImageLook(png=_png(small), label=label, name=file.name, size=size)


def _thumbnail(size: tuple[int, int]) -> tuple[int, int]:
    """The wanted size, made to fit a small square: pictures show what training will see."""
    share = _SIDE / max(size)
    return max(1, round(size[0] * share)), max(1, round(size[1] * share))


def picture(pixels: Any) -> bytes:
    """(height, width, 1 or 3) numbers, uint8 or from 0 to 1, as a small PNG."""
    from PIL import Image

    found = np.asarray(pixels)
    if found.dtype.kind == "f":
        found = np.clip(np.nan_to_num(found) * 255, 0, 255)
    found = found.astype(np.uint8)
    image = Image.fromarray(found[:, :, 0] if found.shape[-1] == 1 else found)
    height, width = _thumbnail((image.height, image.width))
    return _png(image.resize((width, height), Image.Resampling.NEAREST))


def _png(image: Any) -> bytes:
    file = io.BytesIO()
    image.save(file, "PNG", optimize=False)
    return file.getvalue()


def _evenly(files: Sequence[Entry], count: int) -> list[Entry]:
    """Some files, from the first to the last in equal steps."""
    if len(files) <= count:
        return list(files)
    steps = max(1, count - 1)  # of one, the first
    return [files[index * (len(files) - 1) // steps] for index in range(count)]


def _size_problems(sizes: Counter[tuple[int, int]], source: DataSource) -> list[DataProblem]:
    if len(sizes) < 2:
        return []
    small, large = min(sizes), max(sizes)
    every = source.all_options
    return [
        DataProblem.warning(
            f"The images have {len(sizes)} different sizes, from {small[0]} x {small[1]} "
            f"to {large[0]} x {large[1]} pixels (height x width). All are stretched to "
            f"{every['height']} x {every['width']}.",
        )
    ]
