import json
import subprocess
import sys
import zipfile
from pathlib import Path

import sparkwright
from sparkwright import shipping
from sparkwright.cluster.engine_archive import (
    archive_bytes,
    engine_finder,
    own_engine,
    write_archive,
)

ENGINE = Path(sparkwright.__file__).parent


def found_in(folder):
    """What the finder says in a fresh interpreter that imports from `folder` first."""
    import cloudpickle

    code = (
        "import sys, cloudpickle, json; find = cloudpickle.load(sys.stdin.buffer);"
        "found = find('sparkwright'); found['files'] = len(found['files']);"
        "found['imported'] = 'sparkwright' in sys.modules; print(json.dumps(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(folder)!r}); {code}"],
        input=cloudpickle.dumps(engine_finder()),
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_the_same_sources_make_the_same_bytes(tmp_path):
    first, second = write_archive(tmp_path / "a"), write_archive(tmp_path / "b")
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes() == archive_bytes()


def test_the_archive_holds_all_of_the_engine_and_nothing_else(tmp_path):
    with zipfile.ZipFile(write_archive(tmp_path)) as archive:
        names = set(archive.namelist())
    there = {
        str(path.relative_to(ENGINE.parent))
        for path in ENGINE.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert names == there
    assert not any("widgets" in name.split("/")[0] for name in names)


def test_a_folder_and_its_archive_have_one_fingerprint_until_a_file_changes(tmp_path):
    unpacked, archive = tmp_path / "unpacked", write_archive(tmp_path)
    zipfile.ZipFile(archive).extractall(unpacked)
    for where in (archive, unpacked):
        found = found_in(where)
        assert str(where) in found["where"]
        assert found["fingerprint"] == own_engine()["fingerprint"]
        assert found["version"] == sparkwright.__version__
        assert not found["imported"]
    version = unpacked / "sparkwright" / "_version.py"
    version.write_text('"""The version."""\n\n__version__ = "9.9.9"\n')
    changed = found_in(unpacked)
    assert changed["version"] == "9.9.9"
    assert changed["fingerprint"] != own_engine()["fingerprint"]


def test_command_prints_the_path_of_its_output(tmp_path, capsys):
    assert shipping.main([str(tmp_path / "new")]) == 0
    written = Path(capsys.readouterr().out.strip())
    assert written.parent == tmp_path / "new"
    assert written.read_bytes() == archive_bytes()
    assert shipping.main(["--help"]) == 2
    assert "spark-submit --py-files" in capsys.readouterr().err
