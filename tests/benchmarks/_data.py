"""Data of the benchmarks: scikit-learn's digits, shifted and noised to as many as are asked for."""

from typing import Any

import numpy as np


def digits_arrays(count: int) -> tuple[Any, Any]:
    """(count, 28, 28, 1) float32 images and (count,) int32 labels."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    random = np.random.default_rng(0)
    pick = random.integers(0, len(bunch.images), count)
    images = np.kron(bunch.images[pick] / 16.0, np.ones((3, 3)))
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    for number, (down, right) in enumerate(random.integers(-2, 3, (count, 2))):
        images[number] = np.roll(images[number], (down, right), (0, 1))
    images += random.normal(0, 0.05, images.shape)
    return images[..., None].astype(np.float32), bunch.target[pick].astype(np.int32)
