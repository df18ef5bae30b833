import gzip

import pytest
from tests.cases import cases

from sparkwright.data._sequences import completed, prepared
from sparkwright.data.pieces import SkipLog, from_pieces
from sparkwright.errors import ConfigurationError, DataError

GOOD = b"1,2\n3,4\n"


def read(url, log, on_error, **options):
    reader, pairs = prepared(url, on_error=on_error, **options)
    urls = [(file.url, None if other is None else other.url) for file, other in pairs]
    if not reader.length or reader.to_infer:
        reader = completed(reader, reader.survey(urls, SkipLog(on_error)), url)
    return list(reader(urls, log))


HEADER = {"header": True}
CASES = {
    # id: content of the second of three files, options, reason, what the error says of the file
    "text after blank lines": (b"\n1,2\n\n3,x\n", {}, "not a number", ", line 4: .*'x'"),
    "an open quote": (b'1,2\n3,"4\n5,6\n', {}, "quote that is not closed", ", line 2: "),
    "empty": (b"", {}, "empty file", ""),
    "shorter than the head": (b"a\n", {"skip_lines": 1}, "empty file", ""),
    "a header alone": (b"a,b\n", HEADER, "empty file", ""),
    "another header": (b"a,c\n1,2\n", HEADER, "unusable header", ": .*'a', 'c'"),
    "unknown class": (
        b"1,2\n1,z\n", {"labels": 1, "classes": ["2", "4", "6"]}, "unknown class",
        ", line 2: column 'column_1' must hold one of '2', '4', '6'. Received: 'z'",
    ),
    "a class that is missing": (
        b"1,\n", {"labels": 1, "classes": "infer"}, "missing value", ", line 1: .*'column_1'",
    ),
    "too long": (b"1,2\n" * 3, {"length": 2}, "too long", ".*truncate=True"),
}  # fmt: skip


@cases("case", *CASES)
def test_bad_file_raises_with_its_line_or_is_skipped_and_counted(tmp_path, case):
    content, given, reason, says = CASES[case]
    good = b"#\n" + GOOD if given.get("skip_lines") else GOOD
    good = b"a,b\n" + GOOD if given.get("header") else good
    for name, text in (("0", good), ("1", content), ("2", good)):
        (tmp_path / f"{name}.csv").write_bytes(text)
    folder, options = str(tmp_path), {"length": 4, **given}
    with pytest.raises(DataError, match=rf"1\.csv{says}"):
        read(folder, SkipLog("raise"), "raise", **options)
    log = SkipLog("skip")
    assert sum(map(len, read(folder, log, "skip", **options))) == 2
    assert log.skipped.counts == {reason: 1}
    assert "1.csv" in log.skipped.first[0]


@cases(
    "options, says",
    ({"delimiter": ""}, "delimiter=''"),
    ({"labels": "f9"}, "'f9'"),
    ({"labels": 2}, "Received: 2"),
    ({"features": []}, "features"),
    ({"labels": [0, 1]}, "features"),
    ({"labels": 1, "classes": 1}, "classes=1"),
    ({"classes": 3}, "`classes` needs labels"),
    ({"labels": [0, 1], "features": 0, "classes": 3}, "one column of labels. Received: 2"),
    ({"labels": 1, "features": [0, 1], "classes": "infer"}, "cannot be a feature.*column_1"),
    ({"one_hot": True}, "`one_hot` needs `classes`"),
    ({"label_per": "file"}, "'file'"),
    ({"pair_by": "size"}, "'size'"),
    ({"length": 0}, "length=0"),
    ({"on_error": "ignore"}, "on_error='ignore'"),
    ({"labels": 1, "classes": "infer"}, "at least 2 .* Received: 'a' in"),
    ({"features": 1, "on_error": "skip"}, "Received: none at"),
    ({"skip_lines": 9, "on_error": "skip"}, r"0\.csv"),
    ids=lambda value: repr(value) if isinstance(value, dict) else "",
)
def test_invalid_options_raise(tmp_path, options, says):
    (tmp_path / "0.csv").write_bytes(b"1,a\n3,a\n")
    with pytest.raises((ConfigurationError, DataError), match=says):
        read(str(tmp_path), SkipLog("raise"), options.pop("on_error", "raise"), **options)


def pairs_of(folder, features, labels):
    for name, files in (("x", features), ("y", labels)):
        for file in files:
            path = folder / name / f"{file}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"1\n2\n")
    return {"url": str(folder / "x"), "labels_url": str(folder / "y")}


@cases(
    "features, labels, pair_by, says",
    (["a", "b", "c"], ["a", "c"], "name", r"no labels for .*x/b\.csv"),
    (["a"], ["a", "b"], "name", r"no features for .*y/b\.csv"),
    (["1/a", "2/a"], ["a"], "name", r"x/1/a\.csv and .*x/2/a\.csv"),
    (["a", "b", "c"], ["d", "e"], "order", r"3 with features, 2 with labels.*x/c\.csv"),
    (["a"], ["d", "e"], "order", r"1 with features, 2 with labels.*y/e\.csv"),
    ids=["no label", "no features", "a name twice", "order: too few", "order: too many"],
)
def test_unpaired_files_raise_with_their_names(tmp_path, features, labels, pair_by, says):
    with pytest.raises(DataError, match=says):
        prepared(**pairs_of(tmp_path, features, labels), pair_by=pair_by)


@cases(
    "content, options, reason, says",
    (b"1\n", {}, "lengths differ", r'2 in .*x/a\.csv, 1 in .*y/a\.csv.*align="start"'),
    (b"1\n2\n3\n", {"length": 2, "align": "end"}, "too long", r"3 in .*y/a\.csv"),
    (b"1\n2\n", {"label_per": "sequence"}, "several labels", r"2 in .*y/a\.csv"),
    (b"1\nx\n", {}, "not a number", r"y/a\.csv, line 2: .*'x'"),
    (b"", {}, "empty file", r"y/a\.csv"),
    ids=["shorter", "too long", "several labels", "text", "empty"],
)
def test_bad_labels_in_separate_files_are_reported(tmp_path, content, options, reason, says):
    urls = pairs_of(tmp_path, ["0", "a"], ["0", "a"])
    (tmp_path / "y" / "a.csv").write_bytes(content)
    if options.get("label_per"):
        (tmp_path / "y" / "0.csv").write_bytes(b"1\n")
    with pytest.raises(DataError, match=says):
        read(urls["url"], SkipLog("raise"), "raise", labels_url=urls["labels_url"], **options)
    log = SkipLog("skip")
    found = read(urls["url"], log, "skip", labels_url=urls["labels_url"], **options)
    assert sum(map(len, found)) == 1
    assert log.skipped.counts == {reason: 1}


@cases(
    "content, reason",
    (gzip.compress(GOOD * 99)[:-12], "unreadable file"),
    (gzip.compress(b"1,2\n" * 2000), "too large"),
    (gzip.compress(b"1,2\n3,x\n"), "not a number"),
    (gzip.compress(b""), "empty file"),
    ids=["unreadable", "too large", "no number", "empty"],
)
def test_unusable_compressed_file_raises_with_its_name(tmp_path, monkeypatch, content, reason):
    monkeypatch.setattr("sparkwright.data._sequence_reader.MOST_BYTES", 1000)
    (tmp_path / "0.csv").write_bytes(GOOD)
    (tmp_path / "1.csv.gz").write_bytes(content)
    with pytest.raises(DataError, match=r"1\.csv\.gz"):
        read(str(tmp_path), SkipLog("raise"), "raise")
    log = SkipLog("skip")
    assert sum(map(len, read(str(tmp_path), log, "skip"))) == 1
    assert log.skipped.counts == {reason: 1}


@cases("partitions", 0, 2.5, "2", True, ids=repr)
def test_invalid_partitions_raise(partitions):
    spark = None
    with pytest.raises(ConfigurationError, match=f"partitions={partitions!r}"):
        from_pieces(spark, [1], lambda *_: [], sizes=[1], partitions=partitions)
