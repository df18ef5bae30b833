import itertools
import json

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.data._manifest import Manifest, MinibatchFile
from sparkwright.data._skipped import Skipped
from sparkwright.data.paths import FileToRead, cut_files
from sparkwright.errors import DataError

MANIFEST = Manifest(
    batch_size=5,
    columns={"features/image": ("float32", (4, 4, 1)), "labels/kind": ("int32", ())},
    files=(
        MinibatchFile(path="part-00000/0000/minibatch-000000.arrow", examples=5, size_bytes=900),
        MinibatchFile(path="rest/0000/minibatch-000000.arrow", examples=2, size_bytes=500),
    ),
    folder="_minibatches-0123456789ab",
    class_names={"kind": ("Frühling", "winter")},
    fingerprint="f",
    skipped=Skipped.of("unreadable", "a.png is none"),
    created="2026-01-01T00:00:00Z",
    versions={"sparkwright": "1"},
)

names = st.text(min_size=1, max_size=8)
counts = st.integers(1, 1 << 40)
manifests = st.builds(
    Manifest,
    batch_size=counts,
    columns=st.dictionaries(
        names,
        st.tuples(
            st.sampled_from(["float32", "int64", "bool", "uint8"]),
            st.lists(counts, max_size=3).map(tuple),
        ),
    ),
    files=st.lists(
        st.builds(
            MinibatchFile,
            path=st.from_regex(r"[a-z0-9]{1,4}(/[a-z0-9]{1,4}){0,2}", fullmatch=True),
            examples=counts,
            size_bytes=counts,
        ),
        unique_by=lambda file: file.path,
        max_size=5,
    ).map(tuple),
    folder=st.from_regex(r"_minibatches-[0-9a-f]{12}", fullmatch=True),
    class_names=st.dictionaries(names, st.lists(names).map(tuple)),
    fingerprint=st.none() | names,
    skipped=st.builds(
        Skipped, counts=st.dictionaries(names, counts), first=st.lists(names).map(tuple)
    ),
    created=names,
    versions=st.dictionaries(names, names),
)


@given(manifests)
def test_manifest_round_trips(manifest):
    assert Manifest.from_json(manifest.to_json().encode(), url="u") == manifest


def changed(**fields):
    return json.dumps({**json.loads(MANIFEST.to_json()), **fields}).encode()


FILE = "part-00000/0000/minibatch-000000.arrow"


@cases(
    "content, why",
    pytest.param(b"\xff\xfe\x00", "UnicodeDecodeError|JSONDecodeError", id="invalid-utf-8"),
    pytest.param(MANIFEST.to_json().encode()[:-40], "JSONDecodeError", id="cut-off"),
    pytest.param(b'{"name": "my-app"}', "another kind", id="another-manifest"),
    pytest.param(b"[" * 100_000, "RecursionError", id="nested-deeply"),
    pytest.param(changed(version=3), "version 3", id="a-newer-version"),
    pytest.param(changed(examples=8), "is 8, but the files have 7", id="counts-disagree"),
    pytest.param(changed(batch_size=True), "not an integer", id="batch-size-true"),
    pytest.param(changed(files=[["../x", 7, 1]]), "is not a path", id="path-leads-out"),
    pytest.param(changed(files=[["s3:x", 7, 1]]), "not a relative path", id="a-scheme"),
    pytest.param(changed(files=[[FILE, 5, 1], [FILE, 2, 1]]), "duplicate", id="file-twice"),
    pytest.param(changed(files=[[FILE, 7]]), "ValueError", id="too-few-fields"),
    pytest.param(changed(folder="a/b"), "not the name of a folder", id="folder-nested"),
    pytest.param(
        changed(columns={"features/x": {"dtype": "O", "shape": []}}), "dtype", id="objects"
    ),
    pytest.param(changed(columns=None), "AttributeError", id="no-columns"),
    pytest.param(changed(skipped={}), "KeyError", id="no-skip-counts"),
)
def test_damaged_manifest_raises_with_its_name(content, why):
    with pytest.raises(DataError, match=why) as caught:
        Manifest.from_json(content, url="s3://bucket/x/manifest.json")
    assert "s3://bucket/x/manifest.json" in str(caught.value)


def test_removed_files_are_removed_from_the_manifest():
    less = MANIFEST.without({FILE})
    assert [file.path for file in less.files] == ["rest/0000/minibatch-000000.arrow"]
    assert less.examples == 2
    assert less.size_bytes == 500
    assert less.fingerprint is None
    assert MANIFEST.without({"another"}) == MANIFEST
    assert MANIFEST.examples == 7


@given(st.lists(st.integers(0, 30), max_size=20), st.integers(1, 12))
def test_leftovers_are_joined_into_full_minibatches_without_loss(counts, size):
    files = [FileToRead(str(number), examples=n) for number, n in enumerate(counts)]
    minibatches = cut_files(files, [*range(0, sum(counts), size), sum(counts)])
    rows = [
        [(int(f.url), row) for f in pieces for row in range(f.start, f.stop or f.examples or 0)]
        for pieces in minibatches
    ]
    sizes = [len(pieces) for pieces in rows]
    assert all(found == size for found in sizes[:-1])
    assert not sizes or 0 < sizes[-1] <= size
    assert list(itertools.chain(*rows)) == [
        (source, row) for source, n in enumerate(counts) for row in range(n)
    ]
