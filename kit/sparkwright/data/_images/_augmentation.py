"""Random variants of images, in NumPy: each image's are the same every time it is read."""

import hashlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sparkwright.data._dataset import Array
from sparkwright.errors import ConfigurationError


@dataclass(frozen=True, kw_only=True, slots=True)
class Augmentation:
    """What may be done to an image, at random; applied in the order of the attributes.

    Chance depends on `seed`, the image's URL and the variant alone, not on the epoch, the
    partition or the order of reading: Spark may read a partition again at any time, and must find
    the same. So an epoch shows what the one before showed; more variety comes from `variants`.

    A label array whose first two axes are the image's height and width, such as a mask, is shifted,
    cropped and flipped with its image. Other labels stay as they are.

    Attributes:
        variants: random variants of each image, one after the other; default 1.
        keep_original: whether the image as it is comes before them; default False. With `crop`
            that is its centre.
        shift: greatest shift as a share of height and width, 0 to 0.5; default 0. Whole pixels;
            what comes in repeats the edge.
        crop: (height, width) of the part that is kept, at a random place; default None: all. At
            most the image's `size`; it is the size of the examples.
        flip_left_right: mirror every other image, on average; default False.
        flip_up_down: likewise; default False.
        brightness: greatest change as a share, 0 to 1; default 0. With 0.2 each value is multiplied
            by a number from 0.8 to 1.2, and cut at 255.
        seed: default 0.

    Example:
        >>> image = np.arange(6, dtype=np.uint8).reshape(2, 3, 1)
        >>> flip = Augmentation(flip_left_right=True, variants=8)
        >>> flipped = [int(i[0, 0, 0]) for i, _ in flip.apply(image, None, key="/cat/1.png")]
        >>> sorted(set(flipped))
        [0, 2]
    """

    variants: int = 1
    keep_original: bool = False
    shift: float = 0.0
    crop: tuple[int, int] | None = None
    flip_left_right: bool = False
    flip_up_down: bool = False
    brightness: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        _check(_is_count(self.variants), "variants", self.variants, "an integer of at least 1")
        _check(_is_share(self.shift, 0.5), "shift", self.shift, "a number from 0 to 0.5")
        _check(_is_share(self.brightness, 1), "brightness", self.brightness, "a number from 0 to 1")
        for name in ("keep_original", "flip_left_right", "flip_up_down"):
            value = getattr(self, name)
            _check(isinstance(value, bool), name, value, "True or False")
        _check(_is_count(self.seed, 0), "seed", self.seed, "an integer of at least 0")
        if self.crop is not None:
            pair = isinstance(self.crop, tuple | list) and len(self.crop) == 2
            right = pair and all(_is_count(side) for side in self.crop)
            _check(right, "crop", self.crop, "(height, width) of at least 1 pixel, or None")
            object.__setattr__(self, "crop", tuple(self.crop))

    def output_size(self, size: tuple[int, int]) -> tuple[int, int]:
        """Height and width of what becomes of an image of `size`.

        Raises:
            ConfigurationError: if it is smaller than the crop.
        """
        if self.crop is None:
            return size
        if self.crop[0] > size[0] or self.crop[1] > size[1]:
            raise ConfigurationError(
                f"`crop` must be at most the images' size. Received: crop={self.crop}, size={size}."
            )
        return self.crop

    def apply(self, image: Array, label: Array | None, *, key: str) -> list[tuple[Array, Any]]:
        """All variants of one image with their labels.

        Args:
            image: (height, width, channels) uint8.
            label: the label, or None.
            key: what tells the image from others: its URL.
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

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, options: dict[str, Any]) -> "Augmentation":
        """The inverse of `to_dict`."""
        return cls(**options)

    def _indices(self, size: tuple[int, ...], random: np.random.Generator) -> tuple[Array, Array]:
        """Which rows and columns of the image stand where: shift, crop and flips in one."""
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
        """What the crop keeps; without chance, the centre."""
        kept = self.crop or size
        spare = [length - part for length, part in zip(size, kept, strict=True)]
        starts = [s // 2 if random is None else int(random.integers(0, s + 1)) for s in spare]
        return tuple(slice(s, s + part) for s, part in zip(starts, kept, strict=True))


def _is_count(value: Any, least: int = 1) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_share(value: Any, most: float) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and 0 <= value <= most


def _check(right: bool, name: str, value: Any, rule: str) -> None:
    if not right:
        raise ConfigurationError(f"`{name}` must be {rule}. Received: {name}={value!r}.")
