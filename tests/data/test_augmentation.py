import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import arrays

import sparkwright as sw
from sparkwright.data import Augmentation

pictures = arrays(
    np.uint8, st.tuples(st.integers(2, 9), st.integers(2, 9), st.sampled_from([1, 3]))
)


def variants(image, label=None, *, key="/a.png", **options):
    return Augmentation(**options).apply(image, label, key=key)


@given(pictures, st.text(max_size=9), st.integers(0, 2**64 - 1))
def test_variants_of_an_image_are_deterministic(image, key, seed):
    options = {
        "variants": 3, "shift": 0.5, "flip_left_right": True, "brightness": 0.5, "seed": seed,
    }  # fmt: skip
    for one, other in zip(
        variants(image, key=key, **options), variants(image, key=key, **options), strict=True
    ):
        np.testing.assert_array_equal(one[0], other[0])


def test_randomness_depends_on_seed_key_and_variant():
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    options = {"shift": 0.5, "brightness": 0.9, "variants": 2}
    found = [
        made[0].tobytes()
        for key, seed in (("/a", 0), ("/b", 0), ("/a", 1))
        for made in variants(image, key=key, seed=seed, **options)
    ]
    assert len(set(found)) == 6


@given(pictures)
def test_flips_give_one_of_four_images(image):
    possible = [image, image[::-1], image[:, ::-1], image[::-1, ::-1]]
    for made, _ in variants(image, flip_left_right=True, flip_up_down=True, variants=4):
        assert any(np.array_equal(made, p) for p in possible)


def test_all_four_flips_occur_about_equally_often():
    image = np.arange(4, dtype=np.uint8).reshape(2, 2, 1)
    made = variants(image, flip_left_right=True, flip_up_down=True, variants=400)
    corners = np.bincount([int(m[0, 0, 0]) for m, _ in made], minlength=4)
    assert corners.min() > 70


@given(pictures, st.sampled_from([0.25, 0.5]))
def test_shift_moves_whole_pixels_and_repeats_the_edge(image, shift):
    height, width = image.shape[:2]
    down, right = int(shift * height), int(shift * width)
    padded = np.pad(image, ((down, down), (right, right), (0, 0)), mode="edge")
    possible = [
        padded[top : top + height, left : left + width]
        for top in range(2 * down + 1)
        for left in range(2 * right + 1)
    ]
    for made, _ in variants(image, shift=shift, variants=3):
        assert any(np.array_equal(made, p) for p in possible)


@given(pictures, st.data())
def test_crop_is_a_region_of_the_image(image, data):
    height = data.draw(st.integers(1, image.shape[0]))
    width = data.draw(st.integers(1, image.shape[1]))
    possible = [
        image[top : top + height, left : left + width]
        for top in range(image.shape[0] - height + 1)
        for left in range(image.shape[1] - width + 1)
    ]
    original, *others = variants(image, crop=(height, width), variants=3, keep_original=True)
    for made, _ in others:
        assert any(np.array_equal(made, p) for p in possible)
    top, left = (image.shape[0] - height) // 2, (image.shape[1] - width) // 2
    np.testing.assert_array_equal(original[0], image[top : top + height, left : left + width])


@given(pictures)
def test_brightness_scales_all_values_by_one_factor(image):
    for made, _ in variants(image, brightness=0.5, variants=3):
        assert made.dtype == np.uint8
        low, high = np.rint(0.5 * image), np.rint(np.minimum(1.5 * image, 255.0))
        assert ((low <= made) & (made <= high)).all()
        order = np.argsort(image, axis=None, kind="stable")
        assert (np.diff(made.reshape(-1)[order].astype(int)) >= 0).all()


@given(pictures, st.booleans())
def test_mask_is_transformed_with_its_image(image, keep_original):
    mask = image[..., 0].astype(np.int32)
    crop = (image.shape[0] - 1, image.shape[1] - 1)
    for made, label in variants(
        image, mask, shift=0.5, crop=crop, flip_left_right=True, flip_up_down=True,
        variants=4, keep_original=keep_original,
    ):  # fmt: skip
        np.testing.assert_array_equal(label, made[..., 0])


def test_labels_other_than_masks_are_unchanged():
    image = np.zeros((4, 4, 1), np.uint8)
    for label in (np.asarray(3, np.int32), np.arange(4), None):
        for _, found in variants(image, label, flip_left_right=True, variants=4):
            np.testing.assert_array_equal(found, label)


@pytest.mark.parametrize(
    ("crop", "message"),
    [*((crop, "crop=") for crop in ((0, 4), (4,), 4, (4.0, 4))), ((9, 4), r"4\), size=\(8, 8\)")],
)
def test_invalid_crop_raises(crop, message):
    with pytest.raises(sw.ConfigurationError, match=message):
        Augmentation(crop=crop).output_size((8, 8))
