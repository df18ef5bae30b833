"""How large the code is and how it hangs together, as a table.

python -m tests.benchmarks.size
"""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

from sparkwright._lazy import modules_of

ROOT = Path(__file__).resolve().parents[2]
KIT, WIDGETS, TESTS = ROOT / "kit/sparkwright", ROOT / "widgets/sparkwright_widgets", ROOT / "tests"
# A package imports what stands before it; see kit/README.md.
ORDER = (
    (
        "errors",
        "_version",
        "_yaml",
        "options",
        "nested_options",
        "configuration",
        "python_code",
        "_interrupts",
        "_lazy",
        "_notices",
        "_open_files",
        "_process",
    ),
    ("normalizers",),
    ("cluster", "networks", "evaluation", "updates"),
    ("shipping", "storage"),
    ("timeline", "data"),
    ("mesh", "partitions", "dl4j"),
    ("masters",),
    ("workers",),
    ("trackers",),
    ("runs",),
    ("spark", "local", "_local_launcher"),
    ("experiments", "doctor", "advice", "sweeps"),
)
_LEVELS = {name: level for level, names in enumerate(ORDER) for name in names}


def main():
    """Print the table."""
    for name, value in measured():
        print(f"{name:62} {value:>10,}" if isinstance(value, int) else f"{name:62} {value:>10.2f}")


def measured():
    """Name and value of each measure."""
    for name, folder in (("kit", KIT), ("widgets", WIDGETS), ("tests", TESTS)):
        files = sorted(folder.rglob("*.py"))
        texts = [file.read_text(encoding="utf-8") for file in files]
        yield f"{name}: lines", sum(text.count("\n") for text in texts)
        yield f"{name}: files", len(files)
        yield f"{name}: statements in the syntax trees", sum(map(statements_of, files))
    at_import, lazy = imports()
    yield "kit: modules in import cycles", len(cyclic(at_import))
    everything = {name: at_import[name] | lazy[name] for name in at_import}
    yield "kit: modules in cycles if lazy imports count", len(cyclic(everything))
    climbing = {
        (package(name), package(other))
        for name, others in everything.items()
        for other in others
        if level(other) > level(name)
    }
    yield "kit: pairs of packages whose imports climb", len(climbing)
    yield "kit: lazy imports of the kit's own modules", sum(map(len, lazy.values()))
    seconds = []
    for _ in range(5):
        clock = "time.process_time()"
        code = f"import time; t = {clock}; import sparkwright; print({clock} - t)"
        seconds.append(
            float(
                subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
            )
        )
    yield "import sparkwright, processor seconds", min(seconds)
    for name, file in (("sparkwright", KIT), ("sparkwright_widgets", WIDGETS)):
        yield f"public names in {name}", len(set(_public(tree_of(file / "__init__.py"))))


def statements_of(file):
    """The number of statements in a file's syntax tree."""
    return sum(isinstance(node, ast.stmt) for node in ast.walk(tree_of(file)))


@cache
def tree_of(file):
    """The syntax tree of a file."""
    return ast.parse(file.read_text(encoding="utf-8"))


def statements():
    """Package -> statements, as "kit/data"; modules of a root, and all tests, count as one."""
    found = {"tests": 0}
    for root in (KIT, WIDGETS, TESTS):
        for file in root.rglob("*.py"):
            inner = file.relative_to(root).parts[:-1]
            name = "/".join((root.parent.name, *inner[:1])) if root != TESTS else "tests"
            found[name] = found.get(name, 0) + statements_of(file)
    return dict(sorted(found.items()))


def _public(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from (a.asname for a in node.names if a.asname and a.asname[0] != "_")


def package(name):
    """The package, or the module at the top, that a module belongs to."""
    return name.partition(".")[2].partition(".")[0]


def level(name):
    """The place of a module's package in the order; the façade stands above all."""
    return _LEVELS.get(package(name), len(ORDER))


def imports():
    """Module -> modules of the kit that it imports at once, and inside functions."""
    files = {_name(file): file for file in KIT.rglob("*.py")}
    public = {
        f"{package}.{name}": module
        for package, file in files.items()
        if file.name == "__init__.py" and package != KIT.name
        for name, module in modules_of(tree_of(file), package).items()
    }
    at_once = {}
    lazy = {}
    for name, file in files.items():
        at_once[name], lazy[name] = set(), set()
        base = name if file.name == "__init__.py" else name.rpartition(".")[0]
        for node, inside in imports_in(tree_of(file)):
            named = {public.get(target, target) for target in _targets(node, base)}
            (lazy if inside else at_once)[name] |= named & files.keys() - {name}
    return at_once, lazy


def imports_in(tree, *, inside=False):
    """Each import but those for type checkers, and whether it is inside a function."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node, inside
        elif not isinstance(node, ast.expr):  # which has no imports
            deeper = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from imports_in(node, inside=deeper)


def _targets(node, base):
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
        return
    parts = base.split(".")
    root = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
    module = ".".join(filter(None, (root, node.module)))
    for alias in node.names:
        yield f"{module}.{alias.name}"
    yield module


def _name(file):
    parts = file.relative_to(KIT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def cyclic(graph):
    """Modules that import themselves by way of others."""
    found = set()
    for name in graph:
        reached, waiting = set(), list(graph[name])
        while waiting:
            other = waiting.pop()
            if other not in reached:
                reached.add(other)
                waiting += graph.get(other, ())
        if name in reached:
            found.add(name)
    return found


if __name__ == "__main__":
    main()
