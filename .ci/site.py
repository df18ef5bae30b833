"""The pages of `make docs` that are not files of docs/, and the links between all pages.

MkDocs calls the functions that begin with `on_`; mkdocstrings loads `OptionDocs`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
import posixpath
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import griffe
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
# Page of the reference -> its title, and the packages whose public names it has.
REFERENCE = {
    "training": ("Training and runs", "spark local runs ml"),
    "data": ("Data", "data normalizers"),
    "networks": ("Networks", "networks"),
    "masters": ("Training masters", "masters mesh updates partitions"),
    "evaluation": ("Evaluation", "evaluation"),
    "storage": ("Models and storage", "storage dl4j"),
    "experiments": ("Experiments, sweeps and trackers", "experiments sweeps trackers timeline"),
    "clusters": ("Clusters", "doctor advice cluster shipping workers"),
    "widgets": ("Widgets", "sparkwright_widgets"),
    "errors": (
        "Errors and options",
        "errors options nested_options configuration python_code",
    ),
}
# Pages from outside docs/: file of the repository -> file of the site.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "binder/README.md": "binder.md",
    "kit/README.md": "kit.md",
    "widgets/README.md": "widgets-map.md",
    "LICENSE": "license.txt",
    **{
        str(p.relative_to(ROOT)): f"{p.relative_to(ROOT).with_suffix('.md')}"
        for p in (ROOT / "notebooks").glob("*.ipynb")
    },
    **{
        str(p.relative_to(ROOT)): f"examples/{p.stem}.md"
        for p in (ROOT / "docs" / "examples").glob("*.py")
    },
}
_WORKER = "assets/iframe-worker.js"
_SOURCES = {page: source for source, page in PAGES.items()}
_EXAMPLE = re.compile(r"(?m)^Examples?:\n((?:    .*(?:\n|\Z)|\n)+)")
_LINK = re.compile(r"(\]\()([^)\s:#]+)((?:#[^)\s]*)?\))")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside docs/ and the reference."""
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=_as_page(ROOT / source)))
    for notebook in (ROOT / "notebooks").glob("*.ipynb"):
        if report := _report_of(notebook):
            path = f"notebooks/reports/{report.name}"
            files.append(File.generated(config, path, abs_src_path=str(report)))
    worker = str(ROOT / ".ci" / "iframe-worker.js")
    files.append(File.generated(config, _WORKER, abs_src_path=worker))
    for name, content in reference().items():
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead each relative link to where the site has the file of the repository."""
    here = page.file.src_uri
    folder = posixpath.dirname(_SOURCES.get(here, f"docs/{here}"))

    def moved(link: re.Match[str]) -> str:
        source = posixpath.normpath(posixpath.join(folder, link[2]))
        if (ROOT / source).is_dir():
            source = {"notebooks": "notebooks/01_quickstart.ipynb"}.get(source, source)
        target = PAGES.get(source, source.removeprefix("docs/"))
        return link[1] + posixpath.relpath(target, posixpath.dirname(here)) + link[3]

    if here.startswith("reference/"):
        return markdown
    # Blocks of code have brackets that are no links.
    parts = re.split(r"(?ms)(^ *```.*?^ *```)", markdown)
    return "".join(p if p.lstrip().startswith("```") else _LINK.sub(moved, p) for p in parts)


def _as_page(source: Path) -> str:
    text = source.read_text(encoding="utf-8")
    if source.suffix == ".ipynb":
        return _notebook_page(source, json.loads(text)["cells"])
    if source.suffix == ".py":
        return f"# {source.name}\n\n```python\n{text}```\n"
    return text


def _report_of(notebook: Path) -> Path | None:
    names = (notebook.stem, notebook.stem.partition("_")[2])
    reports = (ROOT / "reports" / f"{name}.html" for name in names)
    return next((report for report in reports if report.exists()), None)


def _notebook_page(source: Path, cells: list[dict[str, Any]]) -> str:
    """The text and code; notebooks are stored without outputs, which a report has."""
    if report := _report_of(source):
        note = f'<a href="reports/{report.name}">The report has its outputs and pictures.</a>'
    else:
        note = (
            "The notebook is stored without outputs: "
            f"`make report NOTEBOOK=notebooks/{source.name}` writes a page that has them."
        )
    parts = [f"!!! note\n    {note}"]
    for cell in cells:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
    # The title stays first.
    return "\n\n".join([*parts[1:2], parts[0], *parts[2:]]) + "\n"


def reference() -> dict[str, str]:
    """Return page -> Markdown; raise if a public name has no page or no docstring."""
    on_pages: dict[str, list[str]] = defaultdict(list)
    wrong: list[str] = []
    for name, found in public_names().items():
        parts = found.__module__.split(".")
        package = parts[0] if parts[0] != "sparkwright" else parts[1]
        page = next(
            (p for p, (_, packages) in REFERENCE.items() if package in packages.split()), ""
        )
        if not inspect.getdoc(found):
            wrong.append(f"{name} has no docstring")
        if not page:
            wrong.append(f"{name} is on no page: add {package} to REFERENCE in .ci/site.py")
        options = f"    options:\n      heading: {name}\n      toc_label: {found.__name__}"
        on_pages[page].append(f"::: {found.__module__}.{found.__qualname__}\n{options}\n")
    if wrong:
        raise PluginError("Public names must be documented. Received: " + "; ".join(wrong))
    return {page: f"# {REFERENCE[page][0]}\n\n" + "\n".join(on_pages[page]) for page in REFERENCE}


def public_names() -> dict[str, Any]:
    """Return qualified name -> class or function, each under the shortest name that it has."""
    import sparkwright

    packages = [m.name for m in pkgutil.iter_modules(sparkwright.__path__)]
    modules = [f"sparkwright.{name}" for name in packages if not name.startswith("_")]
    found: dict[int, tuple[str, Any]] = {}
    for name in ["sparkwright", *modules, "sparkwright_widgets"]:
        module = importlib.import_module(name)
        for attribute in dir(module):
            value = getattr(module, attribute)
            if attribute.startswith("_") or not (
                inspect.isclass(value) or inspect.isfunction(value)
            ):
                continue
            # A single file has its imports among its names.
            is_own = value.__module__.startswith("sparkwright") and (
                hasattr(module, "__path__") or value.__module__ == name
            )
            if is_own:
                found.setdefault(id(value), (f"{name}.{attribute}", value))
    return dict(sorted(found.values(), key=lambda pair: pair[0].rpartition(".")[2].lower()))


class OptionDocs(griffe.Extension):
    """Completes docstrings that mkdocstrings reads without running the code."""

    def on_class(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        """Take the options that `sparkwright.configuration` documents at run time."""
        if cls.docstring and any("configuration" in str(d.value) for d in cls.decorators):
            module, _, name = cls.canonical_path.rpartition(".")
            if hasattr(made := importlib.import_module(module), name):
                text = inspect.cleandoc(getattr(made, name).__doc__)
                cls.docstring.value = _EXAMPLE.sub(_fenced, text)

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Set examples as code."""
        if obj.docstring:
            obj.docstring.value = _EXAMPLE.sub(_fenced, obj.docstring.value)


def _fenced(example: re.Match[str]) -> str:
    language = "pycon" if ">>>" in example[1] else "python"
    return f"Examples:\n    ```{language}\n{example[1].rstrip()}\n    ```\n"
