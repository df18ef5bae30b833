"""Random image augmentation in NumPy; each image has the same variants on every read."""

import hashlib
from typing import Any

import numpy as np

from sparkwright.configuration import Configuration, configuration, option
from sparkwright.errors import ConfigurationError
from sparkwright.options import MAX_SEED

from .dataset import Array


@configuration
class Augmentation(Configuration):
    """Random augmentation of images; the transformations are applied in attribute order.

    They depend only on `seed`, the image's URL and the variant number, so a partition that Spark
    recomputes is unchanged. Every epoch uses the same images; increase `variants` for more variety.

    A label array with the image's height and width as its first two axes, such as a mask, is
    shifted, cropped and flipped with its image. Other labels are unchanged.

    Example:
        >>> image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
        >>> flip = Augmentation(flip_left_right=True, variants=8)
        >>> flipped = [int(i[0, 0, 0]) for i, _ in flip.apply(image, None, key="/cat/1.png")]
        >>> sorted(set(flipped))
        [0, 2]
    """

    variants: int = option(default=1, minimum=1, help="Number of random variants of each image.")
    keep_original: bool = option(
        default=False,
        help="Whether the original image precedes its variants; center-cropped with `crop`.",
    )
    shift: float = option(
        default=0.0,
        minimum=0,
        maximum=0.5,
        help="Largest shift as a fraction of height and width, rounded to pixels. Edge pixels "
        "are repeated.",
    )
    crop: tuple[int, int] | None = option(
        default=None,
        form=False,
        help="(height, width) of a random crop, at most the images' `size`; the size of the "
        "examples. None: no crop.",
    )
    flip_left_right: bool = option(default=False, help="Flip horizontally with probability 0.5.")
    flip_up_down: bool = option(default=False, help="Flip vertically with probability 0.5.")
    brightness: float = option(
        default=0.0,
        minimum=0,
        maximum=1,
        help="Largest relative change. With 0.2 each value is multiplied by a factor from 0.8 to "
        "1.2 and clipped to 255.",
    )
    seed: int = option(default=0, minimum=0, maximum=MAX_SEED, help="Seed of the augmentation.")

    def _check(self) -> None:
        crop: Any = self.crop
        if crop is None:
            return
        pair = isinstance(crop, tuple | list) and len(crop) == 2  # pyright: ignore[reportUnknownArgumentType]
        if not pair or not all(type(side) is int and side >= 1 for side in crop):
            raise ConfigurationError(
                f"`crop` must be (height, width) of at least 1 pixel, or None. Received: {crop=}."
            )
        object.__setattr__(self, "crop", tuple(crop))

    def output_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Return (height, width) of the variants of an image of `size`.

        Raises:
            ConfigurationError: if `size` is smaller than the crop.
        """
        if self.crop is None:
            return size
        if self.crop[0] > size[0] or self.crop[1] > size[1]:
            raise ConfigurationError(
                f"`crop` must be at most the images' size. Received: crop={self.crop}, size={size}."
            )
        return self.crop

    def apply(self, image: Array, label: Array | None, *, key: str) -> list[tuple[Array, Any]]:
        """Return all variants of one image with their labels.

        Args:
            image: (height, width, channels) uint8.
            label: the label, or None.
            key: the image's URL, used as part of the seed.
        """
        digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
        entropy = [self.seed, *np.frombuffer(digest, "<u4").tolist()]
        size = image.shape[:2]
        moves_label = label is not None and label.shape[:2] == size

        def placed(rows: Array, columns: Array) -> tuple[Array, Any]:
            at = np.ix_(rows, columns)
            return image[at], label[at] if moves_label and label is not None else label

        made: list[tuple[Array, Any]] = []
        if self.keep_original:
            window = self._window(size, None)
            made.append(placed(*(np.arange(n)[w] for n, w in zip(size, window, strict=True))))
        for variant in range(self.variants):
            random = np.random.default_rng([*entropy, variant])
            pixels, with_it = placed(*self._indices(size, random))
            if self.brightness:
                factor = 1 + random.uniform(-self.brightness, self.brightness)
                pixels = np.rint(np.clip(pixels * factor, 0, 255)).astype(image.dtype)
            made.append((pixels, with_it))
        return made

    def _indices(self, size: tuple[int, ...], random: np.random.Generator) -> tuple[Array, Array]:
        """Return the row and column indices after shift, crop and flips."""
        axes: list[Array] = []
        window = self._window(size, random)
        flips = (self.flip_up_down, self.flip_left_right)
        for length, part, flip in zip(size, window, flips, strict=True):
            most = int(self.shift * length)
            moved = np.arange(length) - random.integers(-most, most + 1)
            kept = np.clip(moved, 0, length - 1)[part]
            axes.append(kept[::-1] if flip and random.random() < 0.5 else kept)
        return axes[0], axes[1]

    def _window(
        self, size: tuple[int, ...], random: np.random.Generator | None
    ) -> tuple[slice, ...]:
        """Return the slices of a random crop, or of a center crop without `random`."""
        kept = self.crop or size
        spare = [length - part for length, part in zip(size, kept, strict=True)]
        starts = [s // 2 if random is None else int(random.integers(0, s + 1)) for s in spare]
        return tuple(slice(s, s + part) for s, part in zip(starts, kept, strict=True))
