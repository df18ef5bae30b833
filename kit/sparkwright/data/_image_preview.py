"""Preview images without Spark."""

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from sparkwright.data._data_preview import DataPreview, DataProblem, ImageThumbnail
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
from sparkwright.storage.files import read_bytes
from sparkwright.storage.listing import list_files

_SIDE = 72


def image_preview(source: DataSource, rows: int) -> DataPreview:
    """Preview images, evenly spaced among all files."""
    arguments = source.arguments
    size: tuple[int, int] = arguments["size"]
    share = _SIDE / max(size)
    small = max(1, round(size[0] * share)), max(1, round(size[1] * share))
    options: dict[str, Any] = {
        **{n: v for n, v in arguments.items() if n in ImageArguments.__annotations__},
        **{"size": small, "scale": False, "threads": 1},
    }
    reader = ImageReader.of(**options)
    recursive = bool(source.all_options["recursive"])
    listed = list_files(source.url, extensions=source.info.endings, recursive=recursive)
    files = without_masks(listed, reader.label)
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
                problems.append(DataProblem.error(str(error)))
        for file in files:
            try:
                found = found_label(reader.label, file.url)
                reader.encoder.encode(found, file.url)
                labels[found] += 1
            except UnusableItem as error:
                log.skip(error.reason, error.message)
        if len(labels) > 1:
            problems += label_problems(labels.most_common(), unit="image", is_all=True)
    places = np.linspace(0, len(files) - 1, min(rows, len(files))).astype(int)
    images = list(_pictures(reader, [files[place].url for place in places], log))
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
        in_all=len(files),
        images=tuple(images),
        labels=tuple(labels.most_common()),
        class_count=len(labels) or None,
        feature_shape=(*size, reader.options.channels),
        files=len(files),
        size_bytes=sum(file.size_bytes for file in files),
        problems=(*problems, *log.problems),
    )


def _pictures(reader: ImageReader, urls: Iterable[str], log: Findings) -> Iterator[ImageThumbnail]:
    from PIL import Image

    for url in urls:
        try:
            content = read_bytes(url)
        except OSError as error:
            log.skip("unreadable file", str(error))
            continue
        for data in reader.read([EncodedImage(url=url, where=url, content=content)], log):
            label = str(found_label(reader.label, url)) if is_in_path(reader.label) else ""
            with Image.open(io.BytesIO(content)) as opened:
                size = opened.height, opened.width
            pixels = next(iter(data.features.values()))[0]
            name = url.rpartition("/")[2]
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
