"""CSV files with something wrong: an error names file and line, or what is wrong is counted."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkwright as sw
from sparkwright.data import _csv_blocks as csv_blocks
from sparkwright.data._csv_format import CsvFormat
from sparkwright.data._csv_reader import CsvReader
from sparkwright.data._table_source import distinct_values
from sparkwright.data.pieces import SkipLog
from sparkwright.storage.listing import list_files

GOOD = "a,b,y\n1,2,0\n3,4,1\n"
COUNTED = {"labels": "y", "classes": 2}
NAMED = {"labels": "y", "classes": ["no", "yes"], "features": ["a"]}


WRONG, TEXT, MISSING = "wrong number of columns", "not a number", "missing value"
RANGE, OPEN = "class out of range", "quote that is not closed"
FINITE, ENCODING = "not a finite number", "not in the encoding"
CASES: dict[str, Any] = {
    # name: content, what the error says, what is counted, what is left of column `a`[, options]
    "too few columns": (
        "a,b,y\n1,2,0\n3,4\n5,6,1\n",
        r"line 3: each record must have 3 fields\. Received: 2 in '3,4'", {WRONG: 1}, [1, 5],
    ),
    "a line of spaces alone beside another fault": (
        "a b y\n1 2 0\n  \n3 4 1\n5 six 1\n", "line 3: column 'a' must hold a value",
        {MISSING: 1, TEXT: 1}, [1, 3], {"delimiter": " ", **COUNTED},
    ),
    "text in a number": (
        "a,b,y\n1,2,0\n\n3,four,1\n", r"line 4: column 'b' must hold numbers\. Received: 'four'",
        {TEXT: 1}, [1],
    ),
    "a hexadecimal number": ("a,b,y\n0x10,2,0\n3,4,1\n", "line 2: .* '0x10'", {TEXT: 1}, [3]),
    "a NUL byte": (b"a,b,y\n1\0,2,0\n3,4,1\n", r"line 2: .* '1\\x00'", {TEXT: 1}, [3]),
    "invalid UTF-8 in a number": (
        b"a,b,y\n\xff1,2,0\n3,4,1\n", r"line 2: .* numbers\. Received: '\\\\xff1'", {TEXT: 1}, [3],
    ),
    "invalid UTF-8 in a class": (
        b"a,y\n1,no\n2,\xffno\n3,yes\n", "line 3: column 'y' must be UTF-8", {ENCODING: 1}, [1, 3],
        NAMED,
    ),
    "invalid UTF-8 beside a wrong count": (
        b"a,b,y\n1,2,0\n\xff,\n3,4,1\n", r"line 3: .* 2 in '\\\\xff,'", {WRONG: 1}, [1, 3],
    ),
    "a class above the range": ("a,b,y\n1,2,0\n3,4,2\n", "line 3: .* '2'", {RANGE: 1}, [1]),
    "an unknown class": (
        "a,y\n1,no\n2,maybe\n3,yes\n",
        "line 3: column 'y' must hold one of 'no', 'yes'. Received: 'maybe'", {"unknown class": 1},
        [1, 3], NAMED,
    ),
    "an unknown category": (
        "a,c\n1,x\n2,z\n",
        "line 3: column 'c' must hold one of 'x', 'y'. Received: 'z'. Add it to `categories`",
        {"unknown category": 1}, [1], {"categories": {"c": ["x", "y"]}},
    ),
    "a missing number": (
        "a,b,y\n1,2,0\n3,,1\n", "line 3: column 'b' must hold a value", {MISSING: 1}, [1],
    ),
    "a missing class": (
        "a,b,y\n1,2,\n3,4,1\n", "line 2: column 'y' must hold a value", {MISSING: 1}, [3],
        {"missing": 0.0, **COUNTED},
    ),
    "NaN": ("a,b,y\n1,nan,0\n3,4,1\n", "line 2: .* Received: 'nan'", {MISSING: 1}, [3]),
    "infinity": (
        "a,b,y\n1,-inf,0\n3,4,1\n",
        "line 2: column 'b' must hold finite numbers .* Received: '-inf'", {FINITE: 1}, [3],
    ),
    "a number beyond float32": (
        "a,b,y\n1,4e38,0\n3,4,1\n", "line 2: .* within the range of float32. Received: '4e38'",
        {FINITE: 1}, [3],
    ),
    "a negative weight": (
        "a,w\n1,-0.5\n2,1\n",
        "line 2: column 'w' must hold weights of at least 0. Received: -0.5", {"weight below 0": 1},
        [2], {"weights": "w"},
    ),
    "a quote that is not closed": (
        'a,b,y\n1,"2,0\n3,4,1\n5,6,1\n', "line 2: a quoted value must end on its line",
        {OPEN: 1}, [3, 5],
    ),
    "a line end in quotes": (
        'a,b,y\n1,"2\n",0\n3,4,1\n', "line 2: .* `newlines_in_values=True`", {OPEN: 2}, [3],
    ),
    "an open quote among values of several lines": (
        'a,b,y\n1,2,0\n3,"4,1\n5,6,1\n', "line 3: a quoted value must end", {OPEN: 1}, [1],
        {"newlines_in_values": True, **COUNTED},
    ),
    "a million columns": (
        "a,b,y\n1,2,0\n" + "7," * 1_000_000 + "7\n3,4,1\n",
        r"line 3: .* Received: 1000001 in '7,7,", {WRONG: 1}, [1, 3],
    ),
    "CRLF and blank lines before the fault": (
        "a,b,y\r\n\r\n1,2,0\r\n  \r\n3,4\r\n", "line 5: .* Received: 2", {WRONG: 1}, [1],
    ),
    "everything is wrong in some way": (
        "a,b,y\n1,2,0\n,,\nx,x,x\n1,2\n", "line 3: ", {MISSING: 1, TEXT: 1, WRONG: 1}, [1],
    ),
}  # fmt: skip


def file(folder: Path, content: bytes | str, name: str = "bad.csv") -> str:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_error_names_file_and_line_or_is_counted(case: Any, tmp_path: Path) -> None:
    content, error, skipped, kept, *rest = case
    options: dict[str, Any] = rest[0] if rest else COUNTED
    path = file(tmp_path, content)
    with pytest.raises(sw.DataError, match=error) as caught:
        sw.data.read_csv(path, **options)
    message = str(caught.value)
    assert message.startswith(f"{path}, line ")
    assert '`on_error="skip"`' in message
    assert "\n" not in message
    assert len(message) < 600
    found = sw.data.read_csv(path, on_error="skip", **options)
    assert dict(found.skipped.counts) == skipped
    assert found.data.features["features"][:, 0].tolist() == kept
    assert all(message.startswith(f"{path}, line ") for message in found.skipped.first)


WHOLE_FILES: list[Any] = [
    ("empty file", b"", {}, "empty file"),
    ("blank lines alone", b"\n\r\n  \n", {}, "empty file"),
    ("another header", b"a,c,y\n1,2,0\n", {}, "unusable header"),
    ("another order", b"b,a,y\n1,2,0\n", {}, "unusable header"),
    ("no header", b"1,2,0\n", {}, "unusable header"),
    ("a delimiter of its own", b"a;b;y\n1;2;0\n", {}, "unusable header"),
    ("header not in UTF-8", b"\xe4,b,y\n1,2,0\n", {}, "not in the encoding"),
    (
        "damaged gzip",
        gzip.compress(GOOD.encode() * 999)[:-40],
        {"name": "bad.csv.gz"},
        "unreadable file",
    ),
    ("not gzip", GOOD.encode(), {"name": "bad.csv.gz"}, "unreadable file"),
]


@pytest.mark.parametrize(
    ("content", "place", "reason"),
    [pytest.param(*rest, id=name) for name, *rest in WHOLE_FILES],
)
def test_unusable_file_raises_or_is_counted(
    content: bytes, place: dict[str, str], reason: str, tmp_path: Path
) -> None:
    path = file(tmp_path, content, **place)
    good = file(tmp_path, GOOD, "good.csv")
    with pytest.raises(sw.DataError) as caught:
        sw.data.read_csv([good, path], **COUNTED)
    assert path in str(caught.value)
    found = sw.data.read_csv([good, path], on_error="skip", **COUNTED)
    assert found.skipped.counts == {reason: 1}
    assert path in found.skipped.first[0]
    assert found.data.features["features"][:2, 0].tolist() == [1, 3]


@pytest.mark.parametrize("place", ["first", "alone"])
def test_columns_come_from_the_first_usable_file(place: str, tmp_path: Path) -> None:
    bad = file(tmp_path, GOOD, "bad.csv.gz")
    good = file(tmp_path, GOOD, "good.csv")
    if place == "alone":
        with pytest.raises(sw.DataError, match=r"bad\.csv\.gz could not be read"):
            sw.data.read_csv(bad, on_error="skip")
    else:
        found = sw.data.read_csv([bad, good], on_error="skip", **COUNTED)
        assert len(found.data) == 2
        assert found.skipped.total == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delimiter": ""}, "`delimiter` must be one ASCII character.* delimiter=''"),
        ({"delimiter": ", "}, "`delimiter` must be one ASCII"),
        ({"delimiter": "€"}, "`delimiter` must be one ASCII"),
        ({"delimiter": None}, "`delimiter` must be .* delimiter=None"),
        ({"quote": "''"}, "`quote` must be one ASCII"),
        ({"quote": ","}, "`quote` and `delimiter` must differ"),
        ({"header": "yes"}, "`header` must be True or False"),
        ({"skip_lines": -1}, "`skip_lines` must be an integer of at least 0"),
        ({"column_names": "abc"}, "`column_names` must be a list of strings"),
        ({"missing_values": "NA"}, "`missing_values` must be .* missing_values='NA'"),
        ({"encoding": "utf-9"}, "`encoding` must be a text encoding of Python"),
        ({"encoding": "hex"}, "`encoding` must be a text encoding .* encoding='hex'"),
        ({"encoding": None}, "`encoding` must be .* encoding=None"),
        ({"newlines_in_values": 1}, "`newlines_in_values` must be True or False"),
        ({"on_error": "ignore"}, "`on_error` must be"),
    ],
)
def test_invalid_options_raise(options: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(sw.ConfigurationError, match=message):
        sw.data.read_csv(file(tmp_path, GOOD), **options)


def test_urls_must_name_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere\.csv does not exist"):
        sw.data.read_csv(str(tmp_path / "nowhere.csv"))
    with pytest.raises(FileNotFoundError, match=r"no file matches .*\*\.csv"):
        sw.data.read_csv(str(tmp_path / "*.csv"))
    with pytest.raises(sw.DataError, match="must have files with the extension 'csv'"):
        sw.data.read_csv(str(tmp_path))
    with pytest.raises(sw.ConfigurationError, match="at least one file"):
        sw.data.read_csv([])
    with pytest.raises(sw.ConfigurationError, match="must be a path or URL"):
        sw.data.read_csv(3)  # pyright: ignore[reportArgumentType]


def test_deleted_file_raises_or_its_parts_are_counted(tmp_path: Path) -> None:
    path = file(tmp_path, GOOD)
    files = list_files(path)
    reader = CsvReader.of(files, CsvFormat()).taking(["a"], ["a"])
    Path(path).unlink()
    for piece_bytes, reason in ((1 << 20, "unreadable file"), (7, "unreadable part of a file")):
        log = SkipLog("skip")
        pieces = reader.pieces(files, piece_bytes)
        for piece in pieces:
            assert list(reader.read(piece, log, distinct_values(["a"]))) == []
        assert log.skipped.counts == {reason: len(pieces)}
    with pytest.raises(sw.DataError, match=r"bad\.csv does not exist"):
        list(reader.read(pieces[0], SkipLog("raise"), distinct_values(["a"])))


WRONG_BYTES: list[Any] = [
    ("cp1252", b"3,4,\x811\n", "line 3"),
    ("shift_jis", b"3,4,1\n\x83,\xff\n", "line 4"),
    ("utf-16", b"\x00\xd8\x00\x00", "line 3"),
    ("utf-16-le", b"\x31", "line 3"),
    ("gb18030", b"\xff\xff\n", "line 3"),
]


@pytest.mark.parametrize("block", [3, 1 << 20])
@pytest.mark.parametrize(("encoding", "wrong", "place"), WRONG_BYTES, ids=lambda v: str(v)[:9])
def test_byte_outside_the_encoding_raises_with_its_line(
    encoding: str, wrong: bytes, place: str, block: int, tmp_path: Path
) -> None:
    path = file(tmp_path, "a,b,y\n1,2,0\n".encode(encoding) + wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", block)
        patch.setattr(csv_blocks, "HEAD_BYTES", block)
        with pytest.raises(sw.DataError) as caught:
            sw.data.read_csv(path, encoding=encoding, **COUNTED)
        found = sw.data.read_csv(path, encoding=encoding, on_error="skip", **COUNTED)
    assert f"{path}, {place}: the text must be {encoding}. Received: b'" in str(caught.value)
    assert "the rest of the file cannot be read" in str(caught.value)
    counts = dict(found.skipped.counts)
    assert counts.pop("not in the encoding") == 1
    assert found.data.features["features"][0].tolist() == [1, 2]
    assert len(found.data) + sum(counts.values()) == int(place[-1]) - 2


def test_file_with_only_skipped_lines_raises(tmp_path: Path) -> None:
    path = file(tmp_path, GOOD)
    with pytest.raises(sw.DataError, match=r"a line after the 3 skipped ones \(`skip_lines`\)"):
        sw.data.read_csv(path, skip_lines=3)


@pytest.mark.parametrize("multiline", [False, True])
def test_unterminated_record_is_not_kept_in_memory(tmp_path: Path, multiline: bool) -> None:
    endless = '"' + "x" * 50_000 if multiline else "x" * 50_000
    path = file(tmp_path, f"a,b,y\n1,2,0\n{endless}\n3,4,1\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", 1000)
        patch.setattr(csv_blocks, "HEAD_BYTES", 1000)
        patch.setattr(csv_blocks, "LONGEST_RECORD_BYTES", 5000)
        with pytest.raises(sw.DataError, match="line 3: a record must end within 5000 bytes"):
            sw.data.read_csv(path, newlines_in_values=multiline, **COUNTED)
        found = sw.data.read_csv(path, newlines_in_values=multiline, on_error="skip", **COUNTED)
    assert found.skipped.counts == {"record without an end": 1}
    assert found.data.features["features"][:, 0].tolist() == ([1] if multiline else [1, 3])


def test_duplicate_header_name_raises(tmp_path: Path) -> None:
    path = file(tmp_path, "a,b,a\n1,2,3\n")
    with pytest.raises(sw.DataError, match="the names in the header must be unique"):
        sw.data.read_csv(path)
    found = sw.data.read_csv(path, column_names=["a", "b", "c"]).data
    assert found.features["features"].tolist() == [[1, 2, 3]]


def test_column_with_too_many_values_has_no_classes(tmp_path: Path) -> None:
    text = "a,y\n" + "".join(f"1,{n}\n" for n in range(10_001))
    with pytest.raises(sw.DataError, match=r"at most 10,000 distinct values.*'y'.*identifier"):
        sw.data.read_csv(file(tmp_path, text), labels="y", classes="infer")
    with pytest.raises(sw.DataError, match=r"must have values\. Received: none in 'y'"):
        sw.data.read_csv(file(tmp_path, "a,y\n1,\n"), labels="y", classes="infer", missing="skip")


def test_schema_with_missing_columns_raises(tmp_path: Path) -> None:
    schema = sw.data.read_csv(file(tmp_path, GOOD), **COUNTED).schema
    bare = file(tmp_path, "a,b\n1,2\n", "bare.csv")
    with pytest.raises(sw.DataError, match=r"no 'y' among .*`schema.without_labels\(\)`"):
        sw.data.read_csv(bare, schema=schema)


def test_no_remaining_rows_raises_with_the_reason(tmp_path: Path) -> None:
    path = file(tmp_path, "a,b,y\n1,2,7\n")
    with pytest.raises(sw.DataError, match="1 skipped: 1 class out of range"):
        sw.data.read_csv(path, on_error="skip", **COUNTED)


@pytest.mark.thorough
def test_many_bad_lines_are_counted_and_the_first_ones_reported(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    bad = random.random(30_000) < 0.3
    lines = [f"{'?' if wrong else n},{n % 2}" for n, wrong in enumerate(bad.tolist())]
    path = file(tmp_path, "\n".join(["a,y", *lines]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", 20_000)
        found = sw.data.read_csv(path, on_error="skip", **COUNTED)
    kept = np.flatnonzero(~bad)
    np.testing.assert_array_equal(found.data.features["features"][:, 0], kept.astype(np.float32))
    np.testing.assert_array_equal(found.data.labels["labels"], kept % 2)
    assert found.skipped.counts == {"not a number": int(bad.sum())}
    assert len(found.skipped.first) == 20
    wrong = np.flatnonzero(bad)[:20] + 2
    assert [int(m.split("line ")[1].split(":")[0]) for m in found.skipped.first] == wrong.tolist()


@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize("options", [{"features": "a"}, {"labels": "s", "classes": "infer"}])
def test_unclosed_quote_is_always_reported(options: Any, multiline: bool, tmp_path: Path) -> None:
    """Neither in a column that is not used, nor where any text would do."""
    path = file(tmp_path, 'a,s\n1,x\n2,"y\n3,x\n4,z\n')
    with pytest.raises(sw.DataError, match="line 3: a quoted value must end"):
        sw.data.read_csv(path, newlines_in_values=multiline, **options)
    found = sw.data.read_csv(path, newlines_in_values=multiline, on_error="skip", **options)
    assert found.data.features["features"][:, 0].tolist() == ([1] if multiline else [1, 3, 4])
    assert found.skipped.counts == {"quote that is not closed": 1}


def test_skipped_row_raises_no_error_for_its_other_faults(
    tmp_path: Path,
) -> None:
    options: Any = {**COUNTED, "weights": "w", "missing": "skip"}
    found = sw.data.read_csv(file(tmp_path, "a,y,w\n1,0,1\n3,7,\n"), **options)
    assert found.skipped.counts == {"missing value": 1}
    assert len(found.data) == 1
    with pytest.raises(sw.DataError, match="line 4: column 'y' must hold integer classes"):
        sw.data.read_csv(file(tmp_path, "a,y,w\n1,0,1\n3,7,\n5,7,1\n"), **options)
