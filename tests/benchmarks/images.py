"""Images: folders and file batches read by executors, against tf.data with the same decoder."""

import io
import tempfile
from pathlib import Path

import numpy as np
from tests.benchmarks._harness import compared, in_turn, rates

import sparkwright as sw

REPEATS = 3
COUNT = 6_000
SIZE = (64, 64)


def images():
    """Images/s from a listing to arrays of 64 x 64 x 3."""
    with tempfile.TemporaryDirectory(prefix="sparkwright-benchmark-") as folder:
        files, batches = f"{folder}/files", f"{folder}/batches"
        size_bytes = _write_jpegs(Path(files))
        spark = sw.start_spark(workers=2)
        sw.data.write_file_batches(files, batches, batch_size=64)
        ways = {
            "tf.data, 2 calls in parallel": lambda: _tf_data(files, 2),
            "tf.data, AUTOTUNE": lambda: _tf_data(files, -1),
            "from_images": lambda: _drained(sw.data.from_images(spark, files, size=SIZE)),
            "from_image_batches": lambda: _drained(
                sw.data.from_image_batches(spark, batches, size=SIZE)
            ),
        }
        for way in ways.values():
            way()  # starts TensorFlow
        found = rates(COUNT, in_turn(REPEATS, ways))
        spark.stop()
    best = [max(pair) for pair in zip(*list(found.values())[:2], strict=True)]
    for name, each in found.items():
        ours = name.startswith("from")
        theirs = {"target": ">= 0.9"} if ours else {"baseline": None, "ratio": None}
        what = f"{COUNT:,} JPEGs of {size_bytes / COUNT / 1e3:.0f} kB, {name}"
        yield compared(what, "images/s", each, best, runs=each) | theirs


def _write_jpegs(folder):
    """COUNT photos-like JPEGs of 200 to 300 pixels in ten folders; returns their bytes."""
    from PIL import Image

    random = np.random.default_rng(0)
    total = 0
    for number in range(COUNT):
        height, width = random.integers(200, 301, 2).tolist()
        coarse = Image.fromarray(random.integers(0, 256, (8, 8, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), np.int16)
        noisy = smooth + random.integers(-10, 11, smooth.shape, dtype=np.int16)
        encoded = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(encoded, "JPEG", quality=90)
        target = folder / f"class_{number % 10}" / f"{number:05d}.jpg"
        target.parent.mkdir(parents=True, exist_ok=True)
        total += target.write_bytes(encoded.getvalue())
    return total


def _tf_data(folder, parallel):
    """The same work by tf.data: list, shuffle, decode with Pillow, scale, batch."""
    import tensorflow as tf

    def decoded(path):
        from PIL import Image

        with Image.open(path.decode()) as image:
            height, width = SIZE
            rgb = image.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
            return np.divide(np.asarray(rgb), np.float32(255), dtype=np.float32)

    def example(path):
        return tf.numpy_function(decoded, [path], tf.float32)

    files = tf.data.Dataset.list_files(f"{folder}/*/*.jpg", seed=0)
    batches = files.map(example, num_parallel_calls=parallel).batch(32).prefetch(-1)
    count = sum(len(batch) for batch in batches)
    assert count == COUNT


def _drained(data):
    """All examples as arrays in the executors' Python workers, where training takes them from."""
    from sparkwright.data import from_bytes

    counts = data.rdd.map(lambda chunk: len(from_bytes(chunk))).collect()
    assert sum(counts) == COUNT
