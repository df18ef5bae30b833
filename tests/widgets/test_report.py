import json
import os
import shutil
import signal
import subprocess
import sys
from datetime import datetime

import nbformat
import psutil
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from sparkwright_widgets._offline_html import offline_html, outside_resources
from sparkwright_widgets.report import main


@pytest.fixture
def notebook(tmp_path):
    """Write a notebook of these cells (text starting with # is Markdown); returns its path."""

    def write(*sources):
        cells = [
            new_markdown_cell(source) if source.startswith("#") else new_code_cell(source)
            for source in sources
        ]
        path = tmp_path / "notebooks" / "tour.ipynb"
        path.parent.mkdir(exist_ok=True)
        nbformat.write(new_notebook(cells=cells), path)
        return path

    return write


def test_failing_cell_ends_the_run_but_not_the_report(notebook, tmp_path, capsys):
    path = notebook(
        "# Broken",
        "import sys\nprint('fine')\nprint('noise', file=sys.stderr)",
        "x = 1\nraise ValueError('<wrong> shape')",
        "y",
    )
    output = tmp_path / "broken.html"
    assert main([str(path), "--output", str(output)]) == 1
    told = capsys.readouterr().out
    assert "Code cell 2 failed: ValueError: <wrong> shape" in told
    assert "    raise ValueError('<wrong> shape')" in told
    html = output.read_text()
    assert "This report is incomplete." in html
    assert "ValueError: &lt;wrong&gt; shape" in html
    assert "fine" in html
    assert "noise" not in html


@pytest.mark.thorough
def test_dead_kernel_is_distinguished_from_a_failing_cell(notebook, tmp_path, capsys):
    path = notebook("import os\nos.write(2, b'out of memory\\n')\nos._exit(1)")
    assert main([str(path), "--output", str(tmp_path / "dead.html")]) == 1
    told = capsys.readouterr().out
    assert "the kernel died" in told
    assert "out of memory" in told


def test_path_without_a_notebook_prints_a_clear_error(tmp_path, capsys):
    assert main([str(tmp_path / "none.ipynb")]) == 2
    assert "must be an existing file" in capsys.readouterr().out


@pytest.mark.thorough
def test_interrupting_leaves_no_kernel_running(notebook, tmp_path):
    path = notebook("print('begun')\nimport time\ntime.sleep(1000)")
    output = tmp_path / "interrupted.html"
    command = [sys.executable, "-m", "sparkwright_widgets.report", str(path)]
    process = subprocess.Popen(
        [*command, "--output", str(output)], stdout=subprocess.PIPE, text=True
    )
    with process, process.stdout:
        while process.stdout.readline().strip() != "begun":
            pass
        kernels = psutil.Process(process.pid).children(recursive=True)
        assert kernels
        process.send_signal(signal.SIGINT)
        told = process.stdout.read()
        assert process.wait(30) == 130
    assert "Code cell 1 failed: interrupted" in told
    assert output.exists()
    assert not any(kernel.is_running() for kernel in kernels)


@pytest.mark.thorough
def test_run_with_parameters_lists_them_and_can_keep_the_code(notebook, tmp_path, capsys):
    path = notebook("# T", "epochs = 1\nname = 'a'", "print(f'{name} for {epochs}')", "secret = 1")
    content = nbformat.read(path, as_version=4)
    content.cells[1].metadata.tags = ["parameters"]
    content.cells[3].metadata.tags = ["remove_input"]
    nbformat.write(content, path)
    output = tmp_path / "out.html"
    options = ["-o", str(output), "-p", "epochs", "5", "-p", "name", "b", "--code"]
    assert main([str(path), *options]) == 0
    html = output.read_text()
    assert "b for 5" in html
    assert '<th scope="row">epochs</th>' in html
    assert html.count('<details class="code">') == 3
    assert "secret" not in html
    assert "Parameters" in nbformat.read(output.with_suffix(".ipynb"), as_version=4).cells[2].source
    assert nbformat.read(path, as_version=4) == content
    assert main([str(path), "-p", "rounds", "5"]) == 2
    assert "The cell sets epochs, name." in capsys.readouterr().out


def test_executed_notebook_is_used_as_it_is(notebook, tmp_path, capsys):
    path = notebook("# T", "raise SystemError('would run')")
    output = path.with_suffix(".html")
    assert main([str(path), "--as-executed", "-o", str(output)]) == 2
    assert "Run and save the notebook" in capsys.readouterr().out
    content = nbformat.read(path, as_version=4)
    picture = {"image/png": "iVBORw0KGgo="}
    content.cells[1].outputs = [new_output("display_data", data=picture)]
    content.metadata.widgets = {"state": {}}
    nbformat.write(content, path)
    before = path.read_bytes()
    assert main([str(path), "--as-executed", "-o", str(output)]) == 0
    assert path.read_bytes() == before
    assert sorted(each.name for each in path.parent.iterdir()) == ["tour.html", "tour.ipynb"]
    assert 'alt="Figure 1 of the section T"' in output.read_text()
    assert main([str(path), "--as-executed", "-p", "a", "1"]) == 2


@pytest.mark.thorough
def test_report_next_to_its_notebook_leaves_it_unchanged(notebook, tmp_path, capsys):
    results = tmp_path / "old.json"  # of an earlier run
    results.write_text(json.dumps({"accuracy": 0.5}))
    os.utime(results, (0, 0))
    path = notebook("1")
    before = path.read_bytes()
    assert main([str(path), "-o", str(path.with_suffix(".html")), "--results", str(results)]) == 0
    assert path.read_bytes() == before
    assert path.with_suffix(".executed.ipynb").exists()
    assert "accuracy" not in capsys.readouterr().out


def test_images_referenced_in_text_are_embedded_and_links_are_kept(notebook):
    images = "![A drawing](drawing.png) ![far](https://far.example/x.png)"
    path = notebook(f"# T\n\n{images} [paper](https://arxiv.org/abs/1)")
    (path.parent / "drawing.png").write_bytes(b"\x89PNG")
    content = nbformat.read(path, as_version=4)
    made_at = datetime(2026, 1, 2)
    html = offline_html(content, name="t", made_at=made_at, took="", folder=path.parent)
    assert 'src="data:image/png;base64,' in html
    assert "https://arxiv.org/abs/1" in html
    assert outside_resources(html) == ["https://far.example/x.png"]


def test_pdf_without_chromium_raises_before_running_anything(
    notebook, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    output = tmp_path / "report.pdf"
    assert main([str(notebook("print('ran')")), "-o", str(output)]) == 2
    told = capsys.readouterr().out
    assert "apt-get install chromium" in told
    assert "ran" not in told
    assert not output.with_suffix(".html").exists()
