"""Who may import what, read from the sources and tried in fresh interpreters."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.benchmarks import size

import sparkwright

ROOT = Path(sparkwright.__file__).parent
HEAVY = {
    *(
        "IPython",
        "anywidget",
        "cryptography",
        "fsspec",
        "ipywidgets",
        "jax",
        "keras",
        "matplotlib",
        "pandas",
    ),
    *("PIL", "pyarrow", "pyspark", "scipy", "sklearn", "tensorflow"),
}
# Sockets, threads, clocks and chance: pure modules take time and randomness as arguments.
EFFECTS = {
    *("asyncio", "concurrent", "logging", "multiprocessing", "os", "queue", "random", "secrets"),
    *("select", "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time"),
}
# Classes of Keras are derived where they are defined; only functions import these modules.
SUBCLASSES = {"networks/metrics.py": {"keras"}}
SHELL_OF_PURE_PACKAGES = {
    "partitions/execute.py",
    "timeline/timeline.py",
}
PURE = [
    "_yaml.py",
    "configuration.py",
    "options.py",
    "errors.py",
    "data/_alignment.py",
    "data/_tensors.py",
    "data/dataset.py",
    "data/texts.py",
    "data/_data_preview.py",
    "data/guessing.py",
    "data/_augmentation.py",
    "data/classes.py",
    "data/_column_choice.py",
    "data/_csv_format.py",
    "data/column_statistics.py",
    "data/_image_labels.py",
    "data/_join_sources.py",
    "data/_manifest.py",
    "data/_moments.py",
    "data/scales.py",
    "data/_splits.py",
    "data/_survey.py",
    "data/_skipped.py",
    "data/_table_schema.py",
    "data/wording.py",
    "data/_record_bytes.py",
    "data/_record_examples.py",
    *(f"doctor/_{name}.py" for name in ("diagnosis", "findings", "notes", "rules")),
    *(f"doctor/_{name}_rules.py" for name in ("executor", "machine", "settings")),
    "mesh/auth.py",
    "mesh/framing.py",
    "mesh/_messages.py",
    "mesh/_peer.py",
    "mesh/time_sources.py",
    "mesh/topology.py",
    "networks/palette.py",
    "networks/training.py",
    "runs/_coordination.py",
    "runs/_coordinator.py",
    "runs/_decisions.py",
    "runs/_early_stopping.py",
    "runs/_events.py",
    "runs/_ledger.py",
    "workers/protocol.py",
    "runs/_sharing_coordinator.py",
    "workers/work.py",
    "runs/membership.py",
    "spark/memory_parts.py",
    "spark/_memory_plan.py",
    *(
        f"{package}/{path.name}"
        for package in (
            *("evaluation", "masters", "partitions"),
            *("timeline", "updates"),
        )
        for path in sorted((ROOT / package).glob("*.py"))
        if path.name != "__init__.py" and f"{package}/{path.name}" not in SHELL_OF_PURE_PACKAGES
    ),
]
_INSIDE_FUNCTIONS = {
    "data/_tensors.py": ["pyarrow"],
    "evaluation/plots.py": ["matplotlib"],
    "masters/advice.py": ["pandas"],
}
SOURCES = sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py"))


@cache
def _tree(source: str) -> ast.Module:
    return ast.parse((ROOT / source).read_text())


def imports(source: str, *, top_level: bool = False) -> Iterator[str]:
    """Absolute names of the modules that a file of the engine imports."""
    package = ["sparkwright", *Path(source).parts[:-1]]
    tree = _tree(source)
    for node in tree.body if top_level else _run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            yield ".".join([*base, *([node.module] if node.module else [])])


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but those that only type checkers see."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield child
        yield from _run_time(child)


@pytest.mark.parametrize("source", PURE)
def test_pure_modules_import_numpy_and_the_standard_library(source: str) -> None:
    # Inside functions there are three exceptions: PyYAML where YAML is read and written,
    # matplotlib where the axes of a new figure are made, and pandas where a DataFrame is.
    inside = {"yaml", *_INSIDE_FUNCTIONS.get(source, ())}
    roots = {name.partition(".")[0] for name in imports(source)}
    assert roots <= set(sys.stdlib_module_names) | {"numpy", "sparkwright"} | inside
    assert not roots & EFFECTS
    assert not inside & {name.partition(".")[0] for name in imports(source, top_level=True)}


@pytest.mark.parametrize("source", PURE)
def test_pure_modules_import_only_pure_modules_of_the_engine(source: str) -> None:
    ours = {name for name in imports(source) if name.split(".")[0] == "sparkwright"}
    pure = {"sparkwright." + path.removesuffix(".py").replace("/", ".") for path in PURE}
    packages = {
        f"sparkwright.{name}" for name in ("data", "evaluation", "masters", "partitions", "updates")
    }
    # They ask Keras when a value's analysis is asked for, and load nothing before.
    packages |= {f"sparkwright.networks.{name}" for name in ("describing", "estimate", "spec")}
    # Its file methods write; the rest of it is a value.
    packages |= {"sparkwright.timeline.timeline"}
    assert ours <= pure | packages


@pytest.mark.parametrize("source", SOURCES)
def test_heavy_packages_are_imported_inside_functions(source: str) -> None:
    found = {name.partition(".")[0] for name in imports(source, top_level=True)} & HEAVY
    assert found == SUBCLASSES.get(source, set())


@pytest.mark.parametrize("source", SOURCES)
def test_the_engine_does_not_know_the_widgets(source: str) -> None:
    assert not any(name.startswith("sparkwright_widgets") for name in imports(source))
    tree = _tree(source)
    texts = {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not any(str(text).startswith("sparkwright_widgets") for text in texts)


@pytest.mark.parametrize("source", SOURCES)
def test_the_folders_of_the_repository_are_no_packages(source: str) -> None:
    assert not any(name.split(".")[0] in {"kit", "tests", "widgets"} for name in imports(source))


@pytest.mark.parametrize(
    "modules",
    ["sparkwright", *(f"sparkwright.{p.removesuffix('.py').replace('/', '.')}" for p in PURE[:8])],
)
def test_importing_the_engine_loads_nothing_heavy(modules: str) -> None:
    code = f"import sys, {modules}; print(*sorted(set(sys.modules) & {HEAVY!r}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_packages_import_downwards_and_nothing_in_a_circle() -> None:
    at_once, lazy = size.imports()
    pairs = [(name, other) for found in (at_once, lazy) for name in found for other in found[name]]
    assert not [(name, other) for name, other in pairs if size.level(other) > size.level(name)]
    assert not size.cyclic(at_once)
    # Without a package: what all of the engine shares, and users do not see.
    private = {
        (name, other)
        for name, other in pairs
        if size.package(name) != size.package(other)
        and other.rpartition(".")[2].startswith("_")
        and other.count(".") > 1
    }
    assert not private


def test_the_rules_are_checked_against_real_files() -> None:
    assert set(PURE) <= set(SOURCES)
    assert "sparkwright.workers.protocol" in set(imports("runs/_coordinator.py"))
    assert "tensorflow" in set(imports("workers/_trainer.py"))
