"""Preview images without Spark."""

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from sparkwright.data._browsing import shown_entries
from sparkwright.data._data_preview import (
    DataPreview,
    DataProblem,
    ImageThumbnail,
)
from sparkwright.data._image_labels import (
    UnusableItem,
    check_found_classes,
    collect_classes,
    found_label,
    is_in_path,
)
from sparkwright.data._image_reader import EncodedImage, ImageArguments, ImageReader
from sparkwright.data._images import without_masks
from sparkwright.data._table_preview import Findings
from sparkwright.data.guessing import label_problems
from sparkwright.data.sources import DataSource
from sparkwright.errors import DataError
from sparkwright.storage.files import is_folder, read_bytes
from sparkwright.storage.listing import Entry, StoredFile, list_files

_MOST_FOLDERS, _MOST_FILES = 200, 200_000
_SIDE = 72


def image_preview(source: DataSource, rows: int) -> DataPreview:
    """Preview images, evenly spaced among the files found."""
    arguments = source.arguments
    size: tuple[int, int] = arguments["size"]
    share = _SIDE / max(size)
    small = max(1, round(size[0] * share)), max(1, round(size[1] * share))
    options: dict[str, Any] = {
        **{n: v for n, v in arguments.items() if n in ImageArguments.__annotations__},
        **{"size": small, "scale": False, "threads": 1},
    }
    reader = ImageReader.of(**options)
    files, is_all = _listed_images(source)
    files = without_masks(files, reader.label)
    if not files:
        raise DataError(f"the source must have at least one image. Received: none at {source.url}.")
    problems: list[DataProblem] = []
    log = Findings()
    labels: Counter[str] = Counter()
    if is_in_path(reader.label):
        if reader.encoder.classes is None:
            classes = collect_classes(reader.label, (file.url for file in files))
            reader = reader.with_classes(classes)
            try:
                check_found_classes(classes, reader.label, source.url, files[0].url)
            except DataError as error:
                kind = DataProblem.error if is_all else DataProblem.warning
                problems.append(kind(str(error)))
        for file in files:
            try:
                found = found_label(reader.label, file.url)
                reader.encoder.encode(found, file.url)
                labels[found] += 1
            except UnusableItem as error:
                log.skip(error.reason, error.message)
        if len(labels) > 1:
            problems += label_problems(labels.most_common(), unit="image", is_all=is_all)
    images = list(_pictures(reader, _evenly(files, rows), log))
    sizes = Counter(image.size for image in images)
    if len(sizes) > 1:
        least, most = min(sizes), max(sizes)
        problems.append(
            DataProblem.warning(
                f"The images have {len(sizes)} different sizes, from {least[0]} x {least[1]} to "
                f"{most[0]} x {most[1]} pixels (height x width). All are stretched to "
                f"{size[0]} x {size[1]}."
            )
        )
    return DataPreview(
        source=source,
        unit="image",
        looked_at=len(images),
        in_all=len(files) if is_all else None,
        images=tuple(images),
        labels=tuple(labels.most_common()),
        class_count=len(labels) or None,
        feature_shape=(*size, reader.options.channels),
        files=len(files) if is_all else None,
        size_bytes=sum(file.size_bytes or 0 for file in files) if is_all else None,
        problems=(*problems, *log.problems),
        note="" if is_all else f"Only the first {len(files):,} images were listed.",
    )


def _listed_images(source: DataSource) -> tuple[list[Any], bool]:
    """List the images of the source, and whether the list is complete."""
    recursive = bool(source.all_options["recursive"])
    if not is_folder(source.url):
        found = list_files(source.url, extensions=source.info.endings, recursive=recursive)
        return found, True
    endings = tuple(f".{ending}" for ending in source.info.endings)
    files: list[Entry] = []
    waiting, looked_into = [source.url], 0
    while waiting and looked_into < _MOST_FOLDERS and len(files) < _MOST_FILES:
        looked_into += 1
        for entry in shown_entries(waiting.pop(0)):
            if entry.is_folder and recursive:
                waiting.append(entry.url)
            elif not entry.is_folder and entry.name.lower().endswith(endings):
                files.append(entry)
    return sorted(files, key=lambda file: file.url), not waiting


def _evenly(files: Sequence[Entry | StoredFile], count: int) -> list[Entry | StoredFile]:
    """Return `count` evenly spaced files, from the first to the last."""
    places = np.linspace(0, len(files) - 1, min(count, len(files))).astype(int)
    return [files[place] for place in places]


def _pictures(
    reader: ImageReader, files: Iterable[Entry | StoredFile], log: Findings
) -> Iterable[ImageThumbnail]:
    from PIL import Image

    for file in files:
        try:
            content = read_bytes(file.url)
        except OSError as error:
            log.skip("unreadable file", str(error))
            continue
        image = EncodedImage(url=file.url, where=file.url, content=content)
        for data in reader.read([image], log):
            label = str(found_label(reader.label, file.url)) if is_in_path(reader.label) else ""
            with Image.open(io.BytesIO(content)) as opened:
                size = opened.height, opened.width
            pixels = next(iter(data.features.values()))[0]
            name = file.url.rpartition("/")[2]
            yield ImageThumbnail(png=picture(pixels), label=label, name=name, size=size)


def picture(pixels: Any) -> bytes:
    """Encode (height, width, 1 or 3) numbers as a small PNG; uint8, or floats from 0 to 1."""
    from PIL import Image

    found = np.asarray(pixels)
    if found.dtype.kind == "f":
        found = np.clip(np.nan_to_num(found) * 255, 0, 255)
    found = found.astype(np.uint8)
    image = Image.fromarray(found[:, :, 0] if found.shape[-1] == 1 else found)
    share = _SIDE / max(image.size)
    size = max(1, round(image.width * share)), max(1, round(image.height * share))
    file = io.BytesIO()
    image.resize(size, Image.Resampling.NEAREST).save(file, "PNG", optimize=False)
    return file.getvalue()
