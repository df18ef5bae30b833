import gzip
from pathlib import Path

import pytest
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import TableSchema, _csv_blocks as csv_blocks
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
CASES = {
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


def file(folder, content, name="bad.csv"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return str(path)


@cases("case", *CASES.values(), ids=CASES)
def test_error_names_file_and_line_or_is_counted(case, tmp_path):
    content, error, skipped, kept, *rest = case
    options = rest[0] if rest else COUNTED
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


WHOLE_FILES = [
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


@cases("content, place, reason", *[pytest.param(*rest, id=name) for name, *rest in WHOLE_FILES])
def test_unusable_file_raises_or_is_counted(content, place, reason, tmp_path):
    path = file(tmp_path, content, **place)
    good = file(tmp_path, GOOD, "good.csv")
    with pytest.raises(sw.DataError) as caught:
        sw.data.read_csv([good, path], **COUNTED)
    assert path in str(caught.value)
    found = sw.data.read_csv([good, path], on_error="skip", **COUNTED)
    assert found.skipped.counts == {reason: 1}
    assert path in found.skipped.first[0]
    if reason == "unreadable file":  # columns come from the first usable file
        found = sw.data.read_csv([path, good], on_error="skip", **COUNTED)
        assert found.skipped.counts == {reason: 1}
        with pytest.raises(sw.DataError, match=r"bad\.csv\.gz could not be read"):
            sw.data.read_csv(path, on_error="skip")
    assert found.data.features["features"][:2, 0].tolist() == [1, 3]


CONFIG, DATA, NO_FILE = sw.ConfigurationError, sw.DataError, FileNotFoundError
INFER = {"labels": "y", "classes": "infer"}
CALLS = [
    # content of a.csv (None: none), options, error, message
    (GOOD, {"delimiter": ""}, CONFIG, "`delimiter` must be one ASCII character.* delimiter=''"),
    (GOOD, {"delimiter": "€"}, CONFIG, "`delimiter` must be one ASCII"),
    (GOOD, {"delimiter": None}, CONFIG, "`delimiter` must be .* delimiter=None"),
    (GOOD, {"quote": "''"}, CONFIG, "`quote` must be one ASCII"),
    (GOOD, {"quote": ","}, CONFIG, "`quote` and `delimiter` must differ"),
    (GOOD, {"header": "yes"}, CONFIG, "`header` must be True or False"),
    (GOOD, {"skip_lines": -1}, CONFIG, "`skip_lines` must be an integer of at least 0"),
    (GOOD, {"column_names": "abc"}, CONFIG, "`column_names` must be a list of strings"),
    (GOOD, {"missing_values": "NA"}, CONFIG, "`missing_values` must be .* missing_values='NA'"),
    (GOOD, {"encoding": "utf-9"}, CONFIG, "`encoding` must be a text encoding of Python"),
    (GOOD, {"encoding": "hex"}, CONFIG, "`encoding` must be a text encoding .* encoding='hex'"),
    (GOOD, {"encoding": None}, CONFIG, "`encoding` must be .* encoding=None"),
    (GOOD, {"newlines_in_values": 1}, CONFIG, "`newlines_in_values` must be True or False"),
    (GOOD, {"on_error": "ignore"}, CONFIG, "`on_error` must be"),
    (GOOD, {"urls": []}, CONFIG, "at least one file"),
    (GOOD, {"urls": 3}, CONFIG, "must be a path or URL"),
    (None, {}, NO_FILE, r"a\.csv does not exist"),
    (None, {"urls": "*.csv"}, NO_FILE, r"no file matches .*\*\.csv"),
    (None, {"urls": "."}, DATA, "must have files with the extension 'csv'"),
    (GOOD, {"skip_lines": 3}, DATA, r"a line after the 3 skipped ones \(`skip_lines`\)"),
    ("a,b,a\n1,2,3\n", {}, DATA, "the names in the header must be unique"),
    ("a,b,y\n1,2,7\n", {"on_error": "skip", **COUNTED}, DATA, "1 skipped: 1 class out of range"),
    ("a,y\n1,\n", {"missing": "skip", **INFER}, DATA, r"must have values\. .*: none in 'y'"),
    (
        "a,y\n" + "".join(f"1,{n}\n" for n in range(10_001)), INFER, DATA,
        r"at most 10,000 distinct values.*'y'.*identifier",
    ),
    (
        "a,b\n1,2\n", {"schema": TableSchema(columns=("a", "y"), features={"x": ("a",)},
        labels={"y": ("y",)})}, DATA, r"no 'y' among .*`schema.without_labels\(\)`",
    ),
]  # fmt: skip


@cases("content, options, error, message", *CALLS)
def test_unusable_calls_raise(content, options, error, message, tmp_path):
    path = str(tmp_path / "a.csv") if content is None else file(tmp_path, content, "a.csv")
    given = dict(options)
    urls = given.pop("urls", path)
    with pytest.raises(error, match=message):
        sw.data.read_csv(str(tmp_path / urls) if isinstance(urls, str) else urls, **given)


def test_deleted_file_raises_or_its_parts_are_counted(tmp_path):
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


WRONG_BYTES = [
    ("cp1252", b"3,4,\x811\n", TEXT),
    ("shift_jis", b"3,\x83,\xff\n", TEXT),
    ("utf-16", b"\x00\xd8\n\x00", WRONG),
    ("utf-16-le", b"\x00\xd8\n\x00", WRONG),
    ("gb18030", b"\xff\xff\n", WRONG),
]


@cases("block", 3, 1 << 20)
@cases("encoding, wrong, reason", *WRONG_BYTES, ids=lambda v: str(v)[:9])
def test_byte_outside_the_encoding_raises_with_its_line(encoding, wrong, reason, block, tmp_path):
    after = "5,6,1\n".encode(encoding).removeprefix("".encode(encoding))
    path = file(tmp_path, "a,b,y\n1,2,0\n".encode(encoding) + wrong + after)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_blocks, "BLOCK_BYTES", block)
        patch.setattr(csv_blocks, "HEAD_BYTES", block)
        with pytest.raises(sw.DataError, match=r"csv, line 3: .* Received: .*'.*\\xff.*'"):
            sw.data.read_csv(path, encoding=encoding, **COUNTED)
        found = sw.data.read_csv(path, encoding=encoding, on_error="skip", **COUNTED)
    assert found.skipped.counts == {reason: 1}
    assert found.data.features["features"].tolist() == [[1, 2], [5, 6]]


def test_last_bytes_outside_the_encoding_are_reported(tmp_path):
    path = file(tmp_path, "a\nx\n".encode("utf-16-le") + b"\x31")
    with pytest.raises(sw.DataError, match="line 3: column 'a' must be UTF-16-LE"):
        sw.data.read_csv(path, encoding="utf-16-le", text="a")


@cases("multiline", False, True)
def test_unterminated_record_is_not_kept_in_memory(tmp_path, multiline):
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


@cases("multiline", False, True)
@cases("options", {"features": "a"}, {"labels": "s", "classes": "infer"})
def test_unclosed_quote_is_always_reported(options, multiline, tmp_path):
    """Neither in a column that is not used, nor where any text would do."""
    for text in ('1,x\n2,"y', '1,x\n2,"y\n', '1,x\n2,"y""'):
        path = file(tmp_path, f"a,s\n{text}")
        with pytest.raises(sw.DataError, match="line 3: a quoted value must end"):
            sw.data.read_csv(path, newlines_in_values=multiline, **options)
    path = file(tmp_path, 'a,s\n1,x\n2,"y\n3,x\n4,z\n')
    with pytest.raises(sw.DataError, match="line 3: a quoted value must end"):
        sw.data.read_csv(path, newlines_in_values=multiline, **options)
    found = sw.data.read_csv(path, newlines_in_values=multiline, on_error="skip", **options)
    assert found.data.features["features"][:, 0].tolist() == ([1] if multiline else [1, 3, 4])
    assert found.skipped.counts == {"quote that is not closed": 1}


def test_skipped_row_raises_no_error_for_its_other_faults(tmp_path):
    options = {**COUNTED, "weights": "w", "missing": "skip"}
    found = sw.data.read_csv(file(tmp_path, "a,y,w\n1,0,1\n3,7,\n"), **options)
    assert found.skipped.counts == {"missing value": 1}
    assert len(found.data) == 1
    with pytest.raises(sw.DataError, match="line 4: column 'y' must hold integer classes"):
        sw.data.read_csv(file(tmp_path, "a,y,w\n1,0,1\n3,7,\n5,7,1\n"), **options)


def test_given_column_names_replace_duplicate_ones(tmp_path):
    path = file(tmp_path, "a,b,a\n1,2,3\n")
    found = sw.data.read_csv(path, column_names=["a", "b", "c"]).data
    assert found.features["features"].tolist() == [[1, 2, 3]]
