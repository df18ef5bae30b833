"""Image files for tests."""

import io

import numpy as np
from PIL import Image


def pixels(seed, shape=(23, 31, 3)):
    """Smooth random colors: noise alone would hide a wrong filter or orientation."""
    random = np.random.default_rng(seed)
    coarse = random.integers(0, 256, (4, 5, *shape[2:]), dtype=np.uint8)
    enlarged = Image.fromarray(coarse).resize(shape[1::-1], Image.Resampling.BICUBIC)
    return np.asarray(enlarged)


def encoded(image, format="PNG", **options):
    """`image` (array or Pillow image) as the bytes of a file."""
    found = image if isinstance(image, Image.Image) else Image.fromarray(image)
    file = io.BytesIO()
    found.save(file, format, **options)
    return file.getvalue()


def write(path, image, **options):
    """Encode and write, with the format that the name tells."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = {".jpg": "JPEG", ".tif": "TIFF"}
    format = names.get(path.suffix.lower(), path.suffix[1:].upper())
    path.write_bytes(encoded(image, format, **options))
    return path


def folder_of_classes(root, *, each=3, classes=("cat", "dog")):
    """`root/CLASS/NUMBER.jpg` and `.png` of different sizes."""
    for index, name in enumerate(classes):
        for number in range(each):
            ending = ("jpg", "png")[number % 2]
            shape = (20 + 3 * number, 30 + index, 3)
            write(root / name / f"{number}.{ending}", pixels(100 * index + number, shape))
    return root


def by_pillow(path, size, mode="RGB", filter="BILINEAR"):
    """(height, width[, channels]) uint8, as one would do it on one machine."""
    with Image.open(path) as image:
        converted = image.convert(mode)
        return np.asarray(converted.resize((size[1], size[0]), Image.Resampling[filter]))
