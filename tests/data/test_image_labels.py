import numpy as np
import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

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


def encoder(classes=None, *, one_hot=False):
    return LabelEncoder(classes=classes, one_hot=one_hot)


@given(names, names)
def test_parent_folder_of_any_name_is_the_label(folder, name):
    assert found_label("parent", f"s3://bucket/train/{folder}/{name}.jpg") == folder


@cases(
    "label, url, expected",
    (PatternLabel(pattern="_"), "/d/cat_17.jpg", "cat"),
    (PatternLabel(pattern="_", position=-1), "/d_x/17_cat.jpg", "cat"),
    (PatternLabel(pattern="[-_ ]+"), "/d/cat - 17.jpg", "cat"),
    (PatternLabel(pattern=r"([a-z]+)\d", group=1), "/d/17-cat3.jpg", "cat"),
    (PatternLabel(pattern=r"(?P<kind>[a-z]+)$", group="kind"), "/d/17-cat.jpg", "cat"),
)
def test_pattern_extracts_the_label_from_the_file_name(label, url, expected):
    assert found_label(label, url) == expected


@cases(
    "mask, expected",
    (MaskFile(), "/d/photos/a.b.png"),
    (MaskFile(suffix="_mask"), "/d/photos/a.b_mask.png"),
    (MaskFile(folder="masks", extension=".gif"), "/d/masks/a.b.gif"),
)
def test_masks_are_found_next_to_their_images(mask, expected):
    assert mask.of("/d/photos/a.b.jpg") == expected


def test_classes_are_sorted_and_unique():
    urls = ["/d/dog/1.png", "/d/cat/2.png", "/d/dog/3.png", "x.png"]
    assert collect_classes("parent", urls) == ("cat", "dog")
    assert collect_classes(PatternLabel(pattern=r"(\d)", group=1), urls) == ("1", "2", "3")


@given(st.lists(names, min_size=1, max_size=8, unique=True), st.data())
def test_class_becomes_its_index_or_a_one_hot_row(classes, data):
    name = data.draw(st.sampled_from(classes))
    number = encoder(tuple(classes)).encode(name, "u")
    row = encoder(tuple(classes), one_hot=True).encode(name, "u")
    assert number.dtype == np.int32
    assert number.shape == ()
    assert classes[int(number)] == name
    assert row.dtype == np.float32
    assert row.tolist() == [float(c == name) for c in classes]


@cases(
    "found, dtype, shape",
    (3, "int32", ()),
    (np.int64(3), "int32", ()),
    (0.5, "float32", ()),
    ([1.0, 2.0], "float32", (2,)),
    (np.zeros((4, 5), np.int64), "int32", (4, 5)),
    (np.zeros((4, 5), np.uint8), "uint8", (4, 5)),
    (np.zeros(2, np.float16), "float16", (2,)),
)
def test_64_bit_numbers_become_32_bit(found, dtype, shape):
    encoded = encoder().encode(found, "u")
    assert encoded.dtype == dtype
    assert encoded.shape == shape
    np.testing.assert_array_equal(encoded, found)


@cases("one_hot", False, True)
@cases("found", 1.0, np.float32(1), np.int8(1), True, "dog")
def test_any_integer_type_is_a_class(found, one_hot):
    encoded = encoder(("cat", "dog"), one_hot=one_hot).encode(found, "u")
    np.testing.assert_array_equal(encoded, [0, 1] if one_hot else 1)
    assert encoded.dtype == ("float32" if one_hot else "int32")


NO_MATCH = "the pattern does not match the name"


@cases(
    "options, message",
    ({"pattern": "_", "position": 2}, ""),
    ({"pattern": "_", "position": -3}, ""),
    ({"pattern": "cat"}, ""),  # nothing before it
    ({"pattern": "(dog)", "group": 1}, ""),
    ({"pattern": "(dog)?", "group": 1}, ""),
    ({"pattern": "-", "position": 0}, NO_MATCH),
    ({"pattern": "-", "position": -1}, NO_MATCH),
)
def test_file_name_without_a_label_raises(options, message):
    label = PatternLabel(**options)
    with pytest.raises(UnusableItem, match=r"/d/cat_17\.jpg") as caught:
        label.of("/d/cat_17.jpg")
    assert message in str(caught.value)
    assert caught.value.reason == "no label"
    if message:
        assert collect_classes(label, ["/d/cat_0.jpg", "/d/dog_0.jpg"]) == ()


ANIMALS = ("cat", "dog")
CLASS = "class name or its number"


@cases(
    "found, classes, one_hot, reason, message",
    ("emu", ANIMALS, False, "unknown class", ""),
    (2, ANIMALS, False, "unknown class", ""),
    (2**31, None, False, "unknown class", ""),
    ("cat", None, False, "unusable label", ""),
    (np.array(["cat"]), ("cat",), False, "unusable label", ""),
    ([[1], [1, 2]], None, False, "unusable label", ""),
    (np.array([2**40]), None, False, "unusable label", ""),
    (0.5, ANIMALS, False, "unusable label", CLASS),
    (0.5, ANIMALS, True, "unusable label", CLASS),
    (np.nan, ANIMALS, False, "unusable label", CLASS),
    ([0.0, 1.0], ANIMALS, True, "unusable label", CLASS),
    (np.zeros((2, 2), int), ANIMALS, True, "unusable label", CLASS),
)
def test_unusable_labels_raise_with_the_file(found, classes, one_hot, reason, message):
    with pytest.raises(UnusableItem, match=rf"(?s){message}.*/d/17\.jpg") as caught:
        encoder(classes, one_hot=one_hot).encode(found, "/d/17.jpg")
    assert caught.value.reason == reason


LABEL, NAMES = "`label` must be", r"list of (unique|the) names"
PATTERN = r"Received: (pattern|group|position)="


@cases(
    "call, message",
    (lambda: PatternLabel(pattern="("), PATTERN),
    (lambda: PatternLabel(pattern=3), PATTERN),
    (lambda: PatternLabel(pattern="a", group=1), PATTERN),
    (lambda: PatternLabel(pattern="a", position="1"), PATTERN),
    *[(lambda v=v: check_label(v), LABEL) for v in ("folder", 3, PatternLabel, ["parent"])],
    *[
        (lambda v=v: check_classes(v, label="parent", one_hot=False), NAMES)
        for v in ("cat", [], ["cat", "cat"], [1, 2], [""], 2, True)
    ],
    *[
        (lambda v=v: check_classes(None, label=v, one_hot=True), "one_hot=True")
        for v in (None, MaskFile(), len)
    ],
)
def test_invalid_options_raise(call, message):
    with pytest.raises(sw.ConfigurationError, match=message):
        call()
