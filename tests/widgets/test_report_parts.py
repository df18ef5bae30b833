import json

import nbformat
import pytest
from hypothesis import given, strategies as st
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from tests.cases import cases

import sparkwright as sw
from sparkwright_widgets._notebook_run import failure_in, has_been_executed, time_taken
from sparkwright_widgets._offline_html import outside_resources
from sparkwright_widgets._reports._page import (
    page,
    pictures_without_text,
    with_alternative_texts,
    with_contents,
)
from sparkwright_widgets._reports._parameters import parameter_value, parameterized, parameters_of

PICTURES = [
    '<img src="data:,">',
    '<img alt="" src="data:,"/>',
    '<img src="data:," alt="No description has been provided for this image">',
    '<img src="data:," alt="A curve">',
    '<svg viewBox="0 0 1 1"><path d="M0"/></svg>',
    '<svg role="img" aria-label="A matrix"></svg>',
    '<svg aria-hidden="true"></svg>',
    "<IMG SRC='data:,' ALT='text'>",
]


@given(st.lists(st.sampled_from([*PICTURES, "<h2>Losses</h2>", "<p>text</p>"]), max_size=12))
def test_every_image_gets_alt_text_and_keeps_existing_text(parts):
    html = "\n".join(parts)
    done = with_alternative_texts(html)
    assert pictures_without_text(done) == []
    assert with_alternative_texts(done) == done
    for part in parts:
        if not pictures_without_text(part):
            assert part in done


def test_alt_text_names_the_section_and_scripts_are_not_images():
    done = with_alternative_texts('<h2>A &lt;b&gt; "c"<a class="anchor-link">¶</a></h2><img>')
    assert done.endswith('<img alt="Figure 1 of the section A &lt;b&gt; &quot;c&quot;">')
    html = "<script>document.write('<img src=x>')</script>"
    assert with_alternative_texts(html) == html


def test_pages_forbid_browsers_to_fetch_resources():
    assert "default-src 'none'" in page(title="t", line="", body="")
    assert "script-src" not in page(title="t", line="", body="")
    assert "script-src" in page(title="t", line="", body="", scripts=True)


def test_table_of_contents_is_inserted_if_there_are_several_headings():
    body = "<h1>T</h1>" + "".join(
        f'<h2 id="a{k}">Part <em>{k}</em><a class="anchor-link" href="#">¶</a></h2>'
        for k in range(4)
    )
    done = with_contents(body)
    assert done.index("<nav") < done.index("<h2")
    assert '<a href="#a3">Part 3</a>' in done
    assert with_contents("<h2 id='x'>only</h2>") == "<h2 id='x'>only</h2>"


def test_parameters_are_numbers_words_or_text():
    pairs = [("epochs", "5"), ("rate", "1e-3"), ("name", "le net"), ("flag", "True")]
    values = {"epochs": 6, "rate": 0.001, "name": "le net", "flag": True}
    assert parameters_of([*pairs, ("epochs", "6")]) == values
    with pytest.raises(sw.ConfigurationError, match="Python identifier"):
        parameters_of([("a-b", "1")])


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.booleans())
def test_python_values_round_trip(value):
    assert parameter_value(str(value)) == value


@given(st.text())
def test_any_text_is_a_value_and_is_never_executed(text):
    parameter_value(text)


def test_parameters_are_set_right_after_their_defaults():
    tags = {"tags": ["parameters"]}
    defaults = new_code_cell("a, b = 1, 2\nc: int = 3", metadata=tags)
    notebook = new_notebook(cells=[new_code_cell("0"), defaults, new_code_cell("a")])
    done = parameterized(notebook, {"b": "it's", "c": None})
    assert len(notebook.cells) == 3
    values = {}
    exec(done.cells[2].source, values)
    assert (values["b"], values["c"]) == ("it's", None)


def test_exported_experiment_accepts_parameters():
    notebook = nbformat.reads(json.dumps(sw.Experiment(epochs=3).to_notebook()), 4)
    done = parameterized(notebook, {"epochs": 9, "training_seed": 2})
    code = [cell.source for cell in done.cells if cell.cell_type == "code"]
    assert code[0].endswith("epochs = 3")
    assert "epochs = 9" in code[1]
    assert code[2].startswith("import sparkwright")
    with pytest.raises(
        sw.ConfigurationError, match=r"Received: epoch\. The cell sets split_seed, workers"
    ):
        parameterized(notebook, {"epoch": 9})


def test_parameters_require_a_tagged_cell():
    with pytest.raises(sw.ConfigurationError, match='tagged "parameters"'):
        parameterized(new_notebook(cells=[new_code_cell("a = 1")]), {"b": 2})


def test_notebook_execution_is_described():
    error = new_output("error", ename="ValueError", evalue="\x1b[1mwrong\x1b[0m", traceback=["a"])
    times = {
        "iopub.execute_input": "2026-01-01T00:00:00.0Z",
        "shell.execute_reply": "2026-01-01T00:01:05.0Z",
    }
    cells = [
        new_markdown_cell("# T"),
        new_code_cell("1", execution_count=1, metadata={"execution": times}),
        new_code_cell("raise", outputs=[error]),
    ]
    notebook = new_notebook(cells=cells)
    assert has_been_executed(notebook)
    assert time_taken(notebook) == "1 min 05 s"
    failure = failure_in(notebook)
    assert (failure.cell, failure.reason) == (2, "ValueError: wrong")
    assert not has_been_executed(new_notebook(cells=[new_code_cell("1")]))
    assert time_taken(new_notebook(cells=[new_code_cell("1")])) == ""


@cases(
    "html",
    '<script src="https://cdn/x.js"></script>',
    '<link rel="stylesheet" href="//cdn/x.css">',
    "<style>@import url('https://cdn/x.css')</style>",
    "<script>import x from 'https://cdn/x.mjs'</script>",
    '<img src="http://site/x.png">',
    '<img srcset="https://site/x.png 2x">',
    '<svg><image href="https://site/x.png"/></svg>',
    '<svg><use xlink:href="//site/x.svg#a"/></svg>',
    "<div style=\"background: url('https://site/x.png')\"></div>",
    '<video poster="https://site/x.png"></video>',
)
def test_requests_of_external_resources_are_found(html):
    assert len(outside_resources(html)) == 1
