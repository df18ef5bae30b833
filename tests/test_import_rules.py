import ast
import importlib
import inspect
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from tests.benchmarks import size

import sparkwright
from sparkwright import data

ROOT = Path(sparkwright.__file__).parent
_HEAVY = (
    "IPython anywidget cryptography fsspec ipywidgets jax keras matplotlib pandas PIL pyarrow "
    "pyspark scipy sklearn tensorflow"
)
HEAVY = {*_HEAVY.split()}
# Sockets, threads, clocks and chance: pure modules take time and randomness as arguments.
_EFFECTS = (
    "asyncio concurrent logging multiprocessing os queue random secrets select shutil signal "
    "socket subprocess tempfile threading time"
)
EFFECTS = {*_EFFECTS.split()}
# Classes of Keras and Spark ML are derived where they are defined; only functions, or users of
# `sparkwright.ml`, import these modules.
SUBCLASSES = {
    **{f"networks/{name}.py": {"keras"} for name in ("metrics", "peephole_lstm")},
    **{f"ml/{name}.py": {"pyspark"} for name in ("_params", "_persistence", "estimator", "model")},
}
SHELL_OF_PURE_PACKAGES = {"partitions/execute.py", "timeline/timeline.py"}
# Packages and their pure modules.
NAMED = {
    "data": "_alignment _column_choice _csv_format _data_preview _data_split "
    "_image_labels _join_sources _manifest _record_values _skipped "
    "_survey _table_schema _tensors classes column_statistics dataset guessing texts wording",
    "advice": "_advice _alternatives _load _memory _predict _tables",
    "doctor": "_diagnosis _findings _rules _version_rules",
    "mesh": "_messages _peer auth framing time_sources topology",
    "networks": "palette training",
    "runs": "_run_rules _averaging_coordinator _decisions _events _ledger _observations poison "
    "_sharing_coordinator _watching membership round_means",
    "spark": "memory_parts",
    "workers": "examples protocol work",
}
PURE = [
    *("_yaml.py", "configuration.py", "errors.py", "nested_options.py", "options.py"),
    "python_code.py",
    *(f"{package}/{name}.py" for package, names in NAMED.items() for name in names.split()),
    *(
        f"{package}/{path.name}"
        for package in ("evaluation", "masters", "normalizers", "partitions", "timeline", "updates")
        for path in sorted((ROOT / package).glob("*.py"))
        if path.name != "__init__.py" and f"{package}/{path.name}" not in SHELL_OF_PURE_PACKAGES
    ),
]
_INSIDE_FUNCTIONS = {
    "data/_tensors.py": ["pyarrow"],
    "evaluation/comparison.py": ["pandas"],
    "evaluation/plots.py": ["matplotlib"],
    "advice/_advice.py": ["pandas"],
    "timeline/page.py": ["PIL"],
}
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@cache
def imports(source, *, top_level=False):
    """Absolute names of the modules that a file of the engine imports."""
    package = ["sparkwright", *Path(source).parts[:-1]]
    found = set()
    for node, inside in size.imports_in(size.tree_of(ROOT / source)):
        if inside and top_level:
            continue
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        else:
            base = package[: len(package) + 1 - node.level] if node.level else []
            found.add(".".join([*base, *([node.module] if node.module else [])]))
    return frozenset(found)


def roots(source, *, top_level=False):
    """The packages that a file of the engine imports."""
    return {name.partition(".")[0] for name in imports(source, top_level=top_level)}


@pytest.mark.thorough
def test_pure_modules_import_numpy_and_the_standard_library():
    for source in PURE:
        # Inside functions there are four exceptions: PyYAML where YAML is read and written,
        # matplotlib where the axes of a new figure are made, pandas where a DataFrame is, and
        # Pillow where a picture is.
        inside = {"yaml", *_INSIDE_FUNCTIONS.get(source, ())}
        allowed = set(sys.stdlib_module_names) | {"numpy", "sparkwright"} | inside
        assert roots(source) <= allowed - EFFECTS, source
        assert not inside & roots(source, top_level=True), source


def test_pure_modules_import_only_pure_modules_of_the_engine():
    pure = {"sparkwright." + path.removesuffix(".py").replace("/", ".") for path in PURE}
    packages = {
        f"sparkwright.{name}" for name in ("data", "evaluation", "masters", "partitions", "updates")
    }
    # They ask Keras when a value's analysis is asked for, and load nothing before.
    packages |= {f"sparkwright.networks.{name}" for name in ("describing", "estimate", "spec")}
    # Its file methods write; the rest of it is a value.
    packages |= {"sparkwright.timeline.timeline"}
    for source in PURE:
        ours = {name for name in imports(source) if name.split(".")[0] == "sparkwright"}
        assert ours <= pure | packages, source


@pytest.mark.thorough
def test_heavy_packages_are_imported_inside_functions():
    found = {source: roots(source, top_level=True) & HEAVY for source in SOURCES}
    assert {source: heavy for source, heavy in found.items() if heavy} == SUBCLASSES


@pytest.mark.thorough
def test_engine_references_neither_widgets_nor_repository_folders():
    outside = {"kit", "tests", "widgets", "sparkwright_widgets"}
    for source in SOURCES:
        assert not roots(source) & outside, source
        assert not re.search("[\"']sparkwright_widgets", (ROOT / source).read_text()), source


@pytest.mark.thorough
def test_importing_the_engine_imports_no_heavy_packages():
    modules = [f"sparkwright.{path.removesuffix('.py').replace('/', '.')}" for path in PURE]
    code = f"import sys, {', '.join(modules)}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.thorough
def test_packages_import_downwards_without_cycles():
    at_once, lazy = size.imports()
    assert not size.cyclic({name: at_once[name] | lazy[name] for name in at_once})
    pairs = [(name, other) for found in (at_once, lazy) for name in found for other in found[name]]
    assert not [(name, other) for name, other in pairs if size.level(other) > size.level(name)]
    # Without a package: what all of the engine shares, and users do not see.
    private = {
        (source, name)
        for source in SOURCES
        for name in imports(source)
        if name.startswith("sparkwright.")
        and name.count(".") > 1
        and size.package(name) != Path(source).parts[0]
        and name.rpartition(".")[2].startswith("_")
    }
    assert not private


def test_rules_are_checked_against_real_files():
    assert set(PURE) <= set(SOURCES)
    assert "sparkwright.workers.protocol" in imports("runs/_averaging_coordinator.py")
    assert "tensorflow" in imports("workers/_trainer.py")


def test_public_names_load_at_first_use():
    for source in SOURCES:
        folder, _, file = source.rpartition("/")
        if file != "__init__.py" or "__getattr__" not in (ROOT / source).read_text():
            continue
        package = importlib.import_module(".".join(filter(None, ("sparkwright", folder))))
        assert all(getattr(package, name) is not None for name in dir(package)), source
        # Importing a module sets its name in the package, in place of a function of that name.
        taken = {path.stem for path in (ROOT / folder).iterdir()} - {"benchmark", "doctor"}
        functions = {name for name in dir(package) if not inspect.ismodule(getattr(package, name))}
        assert not functions & taken, source
    with pytest.raises(AttributeError, match=r"'sparkwright\.data' has no attribute 'nothing'"):
        _ = data.nothing
