import pytest

from sparkwright.errors import ConfigurationError
from sparkwright.runs import extensions


class Entry:
    def __init__(self, maker):
        self.maker = maker

    def load(self):
        if isinstance(self.maker, Exception):
            raise self.maker
        return self.maker


@pytest.fixture
def register(monkeypatch):
    def register(*makers):
        def entry_points(group):
            assert group == "sparkwright.report"
            return [Entry(maker) for maker in makers]

        monkeypatch.setattr(extensions, "entry_points", entry_points)

    return register


def test_second_report_replaces_the_first_and_leaves_no_other_file(register, tmp_path):
    register(lambda run, *, url, title: f"{title} of {run} for {url[-6:]}".encode())
    url = f"{tmp_path}/a/b.html"
    extensions.write_report("run", url, {"title": "report"})
    extensions.write_report("run", url, {"title": "second"})
    assert (tmp_path / "a" / "b.html").read_text() == "second of run for b.html"
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b.html"]


@pytest.mark.parametrize("makers", [(), (ImportError("no ipywidgets here"),)])
def test_missing_notebook_packages_raise_with_the_extra_to_install(register, makers, tmp_path):
    register(*makers)
    with pytest.raises(ConfigurationError, match=r"sparkwright\[notebook\]") as caught:
        extensions.write_report("run", f"{tmp_path}/a.html", {})
    assert not makers or "no ipywidgets here" in str(caught.value)
    assert not (tmp_path / "a.html").exists()
