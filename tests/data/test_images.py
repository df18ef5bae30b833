from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cases import cases
from tests.data.pictures import by_pillow, encoded, folder_of_classes, pixels, write

import sparkwright as sw
from sparkwright.data import DataSet, MaskFile, PatternLabel
from sparkwright.data._image_decoding import ImageOptions, decode, decode_mask
from sparkwright.data._image_reader import ImageReader
from sparkwright.data._images import fingerprint_of
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

FILTERS = ("nearest", "box", "bilinear", "hamming", "bicubic", "lanczos")
OPTIONS = {
    "label": "parent", "classes": None, "one_hot": False, "threads": 2,
}  # fmt: skip


def read(files, **options):
    """What an executor makes of files."""
    reader = ImageReader.of(**{**OPTIONS, **options})
    return DataSet.concatenate(list(reader.read_files(map(str, files), SkipLog("raise"))))


def turned(image, orientation):
    """A JPEG with an EXIF orientation, and the image as it is to be looked at."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    content = encoded(image, "JPEG", exif=exif, quality=95)
    stored = by_pillow_bytes(content)
    upright = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        6: lambda a: np.rot90(a, -1),
        8: lambda a: np.rot90(a, 1),
    }[orientation](stored)
    return content, upright


def by_pillow_bytes(content):
    import io

    return np.asarray(Image.open(io.BytesIO(content)))


def sixteen_bits(image):
    return Image.fromarray(image[..., 0].astype(np.uint16) * 257)


VARIANTS = {
    "jpeg": lambda a: (a, "a.jpg"),
    "gray jpeg": lambda a: (a[..., 0], "a.jpg"),
    "cmyk jpeg": lambda a: (Image.fromarray(a).convert("CMYK"), "a.jpg"),
    "png": lambda a: (a, "a.png"),
    "gray png": lambda a: (a[..., 0], "a.png"),
    "gray with alpha": lambda a: (Image.fromarray(a).convert("LA"), "a.png"),
    "alpha": lambda a: (np.concatenate([a, a[..., :1]], axis=2), "a.png"),
    "palette": lambda a: (Image.fromarray(a).quantize(16), "a.png"),
    "bits": lambda a: (Image.fromarray(a).convert("1"), "a.png"),
    "gif": lambda a: (Image.fromarray(a).quantize(16), "a.gif"),
    "bmp": lambda a: (a, "a.bmp"),
    "tiff": lambda a: (a, "a.tif"),
    "webp": lambda a: (a, "a.webp"),
}


@cases("kind", *VARIANTS)
@cases("channels", 1, 3)
def test_pixels_match_pillow(tmp_path, kind, channels):
    image, name = VARIANTS[kind](pixels(0))
    path = write(tmp_path / name, image)
    options = ImageOptions(size=(12, 17), channels=channels)
    expected = by_pillow(path, (12, 17), "RGB" if channels == 3 else "L")
    found = decode(path.read_bytes(), "x", options)
    assert found.shape == (12, 17, channels)
    np.testing.assert_array_equal(found, expected.reshape(found.shape))


@cases("resize", *FILTERS)
@cases("size", (23, 31), (7, 50), (64, 64), (1, 1))
def test_every_filter_matches_pillow(tmp_path, resize, size):
    path = write(tmp_path / "a.png", pixels(1))
    found = decode(path.read_bytes(), "x", ImageOptions(size=size, resize=resize))
    np.testing.assert_array_equal(found, by_pillow(path, size, filter=resize.upper()))


@cases("format", "PNG", "TIFF")
def test_16_bit_gray_keeps_its_upper_8_bits(format):
    image = pixels(2)
    content = encoded(sixteen_bits(image), format)
    found = decode(content, "x", ImageOptions(size=image.shape[:2], channels=1))
    np.testing.assert_array_equal(found, image[..., :1])


@cases("orientation", 1, 2, 3, 4, 6, 8)
def test_photos_are_rotated_upright_only_on_request(orientation):
    content, upright = turned(pixels(3), orientation)
    found = decode(content, "x", ImageOptions(size=upright.shape[:2], upright=True))
    np.testing.assert_array_equal(found, upright)
    stored = by_pillow_bytes(content)
    found = decode(content, "x", ImageOptions(size=stored.shape[:2]))
    np.testing.assert_array_equal(found, stored)


def test_first_frame_of_an_animation_is_read(tmp_path):
    frames = [Image.fromarray(pixels(seed)) for seed in (4, 5)]
    path = tmp_path / "a.gif"
    frames[0].save(path, save_all=True, append_images=frames[1:])
    found = decode(path.read_bytes(), "x", ImageOptions(size=(23, 31)))
    np.testing.assert_array_equal(found, by_pillow(path, (23, 31)))


def test_draft_decoding_approximates_full_decoding():
    content = encoded(pixels(6, (240, 320, 3)), "JPEG", quality=95)
    whole = decode(content, "x", ImageOptions(size=(24, 32))).astype(int)
    draft = decode(content, "x", ImageOptions(size=(24, 32), draft=True)).astype(int)
    assert not np.array_equal(draft, whole)
    assert np.abs(draft - whole).mean() < 3


@cases("threads", 1, 3)
def test_examples_are_scaled_and_in_order(tmp_path, threads):
    files = sorted(folder_of_classes(tmp_path, each=9).rglob("*.*"))
    expected = np.stack([by_pillow(path, (8, 9)) for path in files])
    gray = np.stack([by_pillow(path, (8, 9), "L")[..., None] for path in files])
    data = read(files, size=(8, 9), classes=["cat", "dog"], threads=threads)
    features = data.features["features"]
    assert features.dtype == np.float32
    np.testing.assert_array_equal(features, expected.astype(np.float32) / 255)
    assert data.labels["labels"].dtype == np.int32
    assert data.labels["labels"].tolist() == [0] * 9 + [1] * 9
    raw = read(files, size=(8, 9), channels=1, label=None, scale=False, threads=threads)
    assert raw.features["features"].dtype == np.uint8
    np.testing.assert_array_equal(raw.features["features"], gray)
    assert not raw.labels


def test_large_images_are_read_in_blocks_without_loss(tmp_path):
    files = [write(tmp_path / f"{n}.png", np.full((2, 2, 3), n, np.uint8)) for n in range(7)]
    reader = ImageReader.of(**{**OPTIONS, "label": None}, size=(400, 400), scale=False)
    blocks = list(reader.read_files(map(str, files), SkipLog("raise")))
    assert [len(block) for block in blocks] == [4, 3]  # two chunks of two images
    values = [int(v) for block in blocks for v in block.features["features"][:, 0, 0, 0]]
    assert values == list(range(7))


def test_label_function_returns_numbers_arrays_or_names(tmp_path):
    files = sorted(folder_of_classes(tmp_path).rglob("*.*"))
    numbers = read(files, size=(4, 4), label=lambda url: float(Path(url).stem)).labels["labels"]
    assert numbers.dtype == np.float32
    assert numbers.tolist() == [0, 1, 2, 0, 1, 2]
    boxes = read(files, size=(4, 4), label=lambda url: [0, len(url)]).labels["labels"]
    assert boxes.tolist() == [[0, len(str(path))] for path in files]
    named = read(
        files, size=(4, 4), label=lambda url: Path(url).parent.name, classes=["dog", "cat"],
        one_hot=True,
    )  # fmt: skip
    np.testing.assert_array_equal(named.labels["labels"], np.eye(2)[[1, 1, 1, 0, 0, 0]])


def test_masks_are_resized_by_nearest_neighbor_and_keep_their_values(tmp_path):
    values = np.random.default_rng(0).integers(0, 5, (20, 30), dtype=np.uint8)
    palette = Image.fromarray(values)
    palette.putpalette(list(range(15)))
    for image in (values, palette):
        write(tmp_path / "photos/a.jpg", pixels(7))
        write(tmp_path / "masks/a.png", image)
        found = read([tmp_path / "photos/a.jpg"], size=(9, 11), label=MaskFile(folder="masks"))
        resized = Image.fromarray(values).resize((11, 9), Image.Resampling.NEAREST)
        assert found.labels["labels"].dtype == np.int32
        np.testing.assert_array_equal(found.labels["labels"][0], np.asarray(resized))
        binary = decode_mask(encoded(image), "x", (9, 11), binary=True)
        assert binary.dtype == np.float32
        np.testing.assert_array_equal(binary[..., 0], np.asarray(resized) > 0)


def test_fingerprint_depends_on_files_and_options(tmp_path):
    folder_of_classes(tmp_path)

    def fingerprint(seed=0, **options):
        files = list_files(str(tmp_path))
        reader = ImageReader.of(**{**OPTIONS, "size": (8, 8), **options})
        return fingerprint_of(reader, files, seed, "raise")

    same = fingerprint()
    assert same == fingerprint()
    assert same == fingerprint(threads=7)  # which changes no example
    for options in (
        {"seed": 1}, {"size": (8, 9)}, {"scale": False}, {"resize": "box"},
        {"classes": ["cat", "dog"]}, {"label": PatternLabel(pattern="_")},
    ):  # fmt: skip
        assert fingerprint(**options) != same
    assert fingerprint(label=len) is None
    assert fingerprint(label=MaskFile()) is None  # masks that are not in the listing
    (tmp_path / "cat/0.jpg").write_bytes(b"another")
    assert fingerprint() != same


def test_fingerprint_includes_listed_masks(tmp_path):
    write(tmp_path / "a.jpg", pixels(0))
    write(tmp_path / "a_mask.png", pixels(1)[..., 0])
    reader = ImageReader.of(**{**OPTIONS, "label": MaskFile(suffix="_mask")}, size=(8, 8))
    before = fingerprint_of(reader, list_files(str(tmp_path)))
    assert before is not None
    write(tmp_path / "a_mask.png", pixels(2)[..., 0])
    assert fingerprint_of(reader, list_files(str(tmp_path))) != before


@cases(
    "options",
    {"size": (0, 8)},
    {"size": 8},
    {"size": (8, 8), "channels": 4},
    {"size": (8, 8), "resize": "cubic"},
    {"size": (8, 8), "threads": 0},
)
def test_invalid_options_raise_immediately(options):
    name = list(options)[-1]
    with pytest.raises(sw.ConfigurationError, match=f"`{name}` must be"):
        ImageReader.of(**{**OPTIONS, **options})


def test_folders_read_on_spark_match_pillow(spark, tmp_path):
    folder = folder_of_classes(tmp_path, each=7)
    files = sorted(path for path in folder.rglob("*.*"))
    expected = np.stack([by_pillow(path, (10, 8)) for path in files]).astype(np.float32) / 255
    data = sw.data.from_images(spark, str(folder), size=(10, 8), seed=None, partitions=3)
    found = data.collect()
    np.testing.assert_array_equal(found.features["features"], expected)
    assert found.labels["labels"].tolist() == [0] * 7 + [1] * 7
    assert data.class_names == {"labels": ("cat", "dog")}
    assert len(data.partition_counts()) == 3
    here = sw.data.read_images(str(folder), size=(10, 8), seed=5)
    assert here.class_names == data.class_names
    # Shuffled: the same examples in the order of the seed, wherever partitions begin.
    order = np.random.default_rng(5).permutation(14)
    for partitions in (1, 4):
        shuffled = sw.data.from_images(
            spark, f"file://{folder}", size=(10, 8), seed=5, partitions=partitions
        ).collect()
        np.testing.assert_array_equal(shuffled.features["features"], expected[order])
        np.testing.assert_array_equal(here.data.features["features"], expected[order])


def test_label_function_of_a_notebook_runs_on_executors(spark, tmp_path):
    folder = folder_of_classes(tmp_path)
    data = sw.data.from_images(
        spark, f"{folder}/*/*.png", size=(4, 4), channels=1, label=lambda url: [len(url), 1.5]
    )
    assert data.fingerprint is None
    assert data.class_names == {}
    found = data.collect().labels["labels"]
    assert found.dtype == np.float32
    assert found.shape == (2, 2)


def test_folder_of_images_and_masks_is_read(spark, tmp_path):
    for number in range(3):
        write(tmp_path / f"{number}.jpg", pixels(number))
        write(tmp_path / f"{number}_mask.png", pixels(number)[..., 0])
    data = sw.data.from_images(
        spark, str(tmp_path), size=(8, 8), label=MaskFile(suffix="_mask", binary=True), seed=None
    )
    found = data.collect()
    assert len(found) == 3
    assert found.labels["labels"].shape == (3, 8, 8, 1)
    assert data.fingerprint is not None
