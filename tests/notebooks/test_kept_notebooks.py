from pathlib import Path

import nbformat
from tests.cases import cases

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))


@cases("path", *NOTEBOOKS, ids=lambda path: path.stem)
def test_committed_notebook_has_no_outputs(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.outputs for cell in code] == [[]] * len(code)
    assert {cell.execution_count for cell in code} == {None}
    assert "widgets" not in notebook.metadata
    assert notebook.metadata.kernelspec.name == "python3"
