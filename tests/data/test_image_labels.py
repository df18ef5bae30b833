"""Labels told from URLs, by functions, and as numbers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.data import MaskFile, PatternLabel
from sparkwright.data._image_labels import (
    LabelEncoder,
    UnusableItem,
    check_classes,
    check_label,
    collect_classes,
    found_label,
)

names = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=12)


def encoder(classes: Any = None, *, one_hot: bool = False) -> LabelEncoder:
    return LabelEncoder(classes=classes, one_hot=one_hot)


@given(names, names)
def test_parent_folder_of_any_name_is_the_label(folder: str, name: str) -> None:
    assert found_label("parent", f"s3://bucket/train/{folder}/{name}.jpg") == folder


@pytest.mark.parametrize(
    ("label", "url", "expected"),
    [
        (PatternLabel(pattern="_"), "/d/cat_17.jpg", "cat"),
        (PatternLabel(pattern="_", position=-1), "/d_x/17_cat.jpg", "cat"),
        (PatternLabel(pattern="[-_ ]+"), "/d/cat - 17.jpg", "cat"),
        (PatternLabel(pattern=r"([a-z]+)\d", group=1), "/d/17-cat3.jpg", "cat"),
        (PatternLabel(pattern=r"(?P<kind>[a-z]+)$", group="kind"), "/d/17-cat.jpg", "cat"),
    ],
)
def test_pattern_extracts_the_label_from_the_file_name(label: Any, url: str, expected: str) -> None:
    assert found_label(label, url) == expected


@pytest.mark.parametrize(
    "label",
    [
        PatternLabel(pattern="_", position=2),
        PatternLabel(pattern="_", position=-3),
        PatternLabel(pattern="cat", position=0),  # nothing before it
        PatternLabel(pattern="(dog)", group=1),
        PatternLabel(pattern="(dog)?", group=1),
    ],
)
def test_file_name_without_a_label_raises(label: PatternLabel) -> None:
    with pytest.raises(UnusableItem, match=r"/d/cat_17\.jpg") as caught:
        label.of("/d/cat_17.jpg")
    assert caught.value.reason == "no label"


@pytest.mark.parametrize("position", [0, -1])
def test_name_that_does_not_match_the_pattern_is_not_a_class(position: int) -> None:
    label = PatternLabel(pattern="-", position=position)
    with pytest.raises(UnusableItem, match="the pattern does not match the name") as caught:
        label.of("/d/cat_0.jpg")
    assert caught.value.reason == "no label"
    assert collect_classes(label, ["/d/cat_0.jpg", "/d/dog_0.jpg"]) == ()


@pytest.mark.parametrize(
    "options",
    [
        {"pattern": "("},
        {"pattern": 3},
        {"pattern": "a", "group": 1},
        {"pattern": "a", "position": "1"},
    ],
)
def test_invalid_pattern_raises(options: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match=r"Received: (pattern|group|position)="):
        PatternLabel(**options)


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (MaskFile(), "/d/photos/a.b.png"),
        (MaskFile(suffix="_mask"), "/d/photos/a.b_mask.png"),
        (MaskFile(folder="masks", extension=".gif"), "/d/masks/a.b.gif"),
    ],
)
def test_masks_are_found_next_to_their_images(mask: MaskFile, expected: str) -> None:
    assert mask.of("/d/photos/a.b.jpg") == expected


def test_classes_are_sorted_and_unique() -> None:
    urls = ["/d/dog/1.png", "/d/cat/2.png", "/d/dog/3.png", "x.png"]
    assert collect_classes("parent", urls) == ("cat", "dog")
    assert collect_classes(PatternLabel(pattern=r"(\d)", group=1), urls) == ("1", "2", "3")


@given(st.lists(names, min_size=1, max_size=8, unique=True), st.data())
def test_class_becomes_its_index_or_a_one_hot_row(classes: list[str], data: Any) -> None:
    name = data.draw(st.sampled_from(classes))
    number = encoder(tuple(classes)).encode(name, "u")
    row = encoder(tuple(classes), one_hot=True).encode(name, "u")
    assert number.dtype == np.int32
    assert number.shape == ()
    assert classes[int(number)] == name
    assert row.dtype == np.float32
    assert row.tolist() == [float(c == name) for c in classes]


@pytest.mark.parametrize(
    ("found", "dtype", "shape"),
    [
        (3, "int32", ()),
        (np.int64(3), "int32", ()),
        (0.5, "float32", ()),
        ([1.0, 2.0], "float32", (2,)),
        (np.zeros((4, 5), np.int64), "int32", (4, 5)),
        (np.zeros((4, 5), np.uint8), "uint8", (4, 5)),
        (np.zeros(2, np.float16), "float16", (2,)),
    ],
)
def test_64_bit_numbers_become_32_bit(found: Any, dtype: str, shape: tuple[int, ...]) -> None:
    encoded = encoder().encode(found, "u")
    assert encoded.dtype == dtype
    assert encoded.shape == shape
    np.testing.assert_array_equal(encoded, found)


@pytest.mark.parametrize(
    ("found", "classes", "reason"),
    [
        ("emu", ("cat", "dog"), "unknown class"),
        (2, ("cat", "dog"), "unknown class"),
        (2**31, None, "unknown class"),
        ("cat", None, "unusable label"),
        (np.array(["cat"]), ("cat",), "unusable label"),
        ([[1], [1, 2]], None, "unusable label"),
        (np.array([2**40]), None, "unusable label"),
    ],
)
def test_non_numeric_labels_raise_with_the_file(found: Any, classes: Any, reason: str) -> None:
    with pytest.raises(UnusableItem, match=r"/d/17\.jpg") as caught:
        encoder(classes).encode(found, "/d/17.jpg")
    assert caught.value.reason == reason


@pytest.mark.parametrize("one_hot", [False, True])
@pytest.mark.parametrize("found", [1.0, np.float32(1), np.int8(1), True, "dog"])
def test_any_integer_type_is_a_class(found: Any, one_hot: bool) -> None:
    encoded = encoder(("cat", "dog"), one_hot=one_hot).encode(found, "u")
    np.testing.assert_array_equal(encoded, [0, 1] if one_hot else 1)
    assert encoded.dtype == ("float32" if one_hot else "int32")


@pytest.mark.parametrize(
    ("found", "one_hot"),
    [(0.5, False), (0.5, True), (np.nan, False), ([0.0, 1.0], True), (np.zeros((2, 2), int), True)],
)
def test_unknown_class_raises_with_classes(found: Any, one_hot: bool) -> None:
    with pytest.raises(UnusableItem, match=r"(?s)class name or its number.*/d/17\.jpg") as caught:
        encoder(("cat", "dog"), one_hot=one_hot).encode(found, "/d/17.jpg")
    assert caught.value.reason == "unusable label"


@pytest.mark.parametrize("label", ["folder", 3, PatternLabel, ["parent"]])
def test_invalid_label_option_raises(label: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match="`label` must be"):
        check_label(label)


@pytest.mark.parametrize("classes", ["cat", [], ["cat", "cat"], [1, 2], [""], 2, True])
def test_duplicate_class_names_raise(classes: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match=r"list of (unique|the) names"):
        check_classes(classes, label="parent", one_hot=False)


@pytest.mark.parametrize("label", [None, MaskFile(), len])
def test_one_hot_without_classes_raises(label: Any) -> None:
    with pytest.raises(sw.ConfigurationError, match="one_hot=True"):
        check_classes(None, label=label, one_hot=True)
