import runpy
from pathlib import Path

import pytest
from mkdocs.exceptions import PluginError
from tests.cases import cases

SITE = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "site.py"))


def test_every_public_name_is_on_one_page():
    import sparkwright as sw

    headings = [
        line.partition("heading: ")[2]
        for page in SITE["reference"]().values()
        for line in page.splitlines()
        if "heading: " in line
    ]
    assert len(headings) == len(set(headings)) > 290
    assert {"sparkwright.SparkNetwork", "sparkwright.data.from_csv"} <= set(headings)
    assert sw.DataSet.__name__ in {name.rpartition(".")[2] for name in headings}


@cases(
    "package, docstring, error",
    ("data", None, r"sparkwright\.data\.new has no docstring"),
    ("unlisted", "Do it.", "on no page: add unlisted to REFERENCE"),
)
def test_undocumented_or_unlisted_name_fails_the_build(package, docstring, error, monkeypatch):
    def new(): ...

    new.__module__, new.__doc__ = f"sparkwright.{package}._new", docstring
    scope = SITE["reference"].__globals__
    monkeypatch.setitem(scope, "public_names", lambda: {f"sparkwright.{package}.new": new})
    with pytest.raises(PluginError, match=error):
        SITE["reference"]()
