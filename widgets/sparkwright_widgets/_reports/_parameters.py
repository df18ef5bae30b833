"""Parse parameters of the command line, and insert them into a notebook with papermill."""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from nbformat import NotebookNode

from sparkwright.errors import ConfigurationError

_WORDS = {"true": True, "false": False, "none": None, "null": None}
_TAG = "parameters"


def parameter_value(text: str) -> Any:
    """Parse a command line value: a number, Boolean, None, list, dict or text.

    Example:
        >>> [parameter_value(text) for text in ("3", "1e-3", "true", "none", "[1, 2]", "lenet")]
        [3, 0.001, True, None, [1, 2], 'lenet']
    """
    if text.strip().lower() in _WORDS:
        return _WORDS[text.strip().lower()]
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
    return value if isinstance(value, int | float | str | list | dict) else text


def parameters_of(pairs: Sequence[Sequence[str]]) -> dict[str, Any]:
    """Parse (name, text) pairs to parameters; the last one wins if a name is repeated."""
    found: dict[str, Any] = {}
    for name, text in pairs:
        if not name.isidentifier():
            raise ConfigurationError(
                "the name of a parameter must be a Python identifier. Received: "
                f"{name!r}. For example, use `-p epochs 5`."
            )
        found[name] = parameter_value(text)
    return found


def parameterized(notebook: NotebookNode, parameters: Mapping[str, Any]) -> NotebookNode:
    """Return a copy of the notebook with a cell that sets `parameters`, after the tagged one."""
    cell = next(
        (each for each in notebook.cells if _TAG in each.metadata.get("tags", ())),
        None,
    )
    if cell is None:
        raise ConfigurationError(
            'parameters need a cell tagged "parameters" that sets their defaults. Received: '
            f"{', '.join(parameters)}, without a tagged cell. Add the tag in JupyterLab's property "
            "inspector."
        )
    known = _names(cell.source)
    unknown = [name for name in parameters if known and name not in known]
    if unknown:
        raise ConfigurationError(
            'each parameter must be set in the cell tagged "parameters". Received: '
            f"{', '.join(unknown)}. The cell sets {', '.join(known)}."
        )
    try:
        from papermill.parameterize import parameterize_notebook
    except ImportError as error:
        raise ConfigurationError(
            f"parameters need papermill. Received: {error}. Install it with "
            "`pip install 'sparkwright[notebook]'`."
        ) from None
    copy = NotebookNode(notebook)
    copy.metadata = NotebookNode({**notebook.metadata, "papermill": NotebookNode()})
    copy.cells = [NotebookNode(each) for each in notebook.cells]
    for each in copy.cells:
        each.metadata = NotebookNode({"tags": [], **each.metadata})
    return parameterize_notebook(copy, dict(parameters), kernel_name="python3", language="python")


def _names(source: str) -> list[str]:
    """Return the variables that a cell sets; empty if it is not plain Python, such as magics."""
    try:
        statements = ast.parse(source).body
    except SyntaxError:
        return []
    targets: list[ast.expr] = []
    for statement in statements:
        if isinstance(statement, ast.Assign):
            targets += statement.targets
        elif isinstance(statement, ast.AnnAssign):
            targets.append(statement.target)
    inner = [each.elts if isinstance(each, ast.Tuple | ast.List) else [each] for each in targets]
    return [name.id for each in inner for name in each if isinstance(name, ast.Name)]
