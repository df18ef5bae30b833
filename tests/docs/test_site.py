"""Public names without a docstring or a page fail the build of the documentation site."""

import runpy
from pathlib import Path

import pytest
from mkdocs.exceptions import PluginError

SITE = runpy.run_path(str(Path(__file__).parents[2] / ".ci" / "site.py"))


def test_every_public_name_is_on_one_page() -> None:
    import sparkwright as sw

    headings = [
        line.partition("heading: ")[2]
        for page in SITE["reference"]().values()
        for line in page.splitlines()
        if "heading: " in line
    ]
    assert len(headings) == len(set(headings)) > 300
    assert {"sparkwright.SparkNetwork", "sparkwright.data.from_csv"} <= set(headings)
    assert sw.DataSet.__name__ in {name.rpartition(".")[2] for name in headings}


def test_undocumented_name_fails_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def undocumented() -> None: ...

    undocumented.__module__ = "sparkwright.data._new"
    scope = SITE["reference"].__globals__
    monkeypatch.setitem(scope, "public_names", lambda: {"sparkwright.data.new": undocumented})
    with pytest.raises(PluginError, match=r"sparkwright\.data\.new has no docstring"):
        SITE["reference"]()


def test_name_of_an_unlisted_package_fails_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    def documented() -> None:
        """Do it."""

    documented.__module__ = "sparkwright.unlisted._new"
    scope = SITE["reference"].__globals__
    monkeypatch.setitem(scope, "public_names", lambda: {"sparkwright.unlisted.new": documented})
    with pytest.raises(PluginError, match="on no page: add unlisted to REFERENCE"):
        SITE["reference"]()
