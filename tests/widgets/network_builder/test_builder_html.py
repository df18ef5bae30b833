import re
from xml.etree import ElementTree

from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.networks import LayerAnalysis, LayerSpec, NetworkAnalysis, NetworkSpec, OutputSpec
from sparkwright_widgets._network_builder._graph import LAYERS_DRAWN, graph_svg, graph_text
from sparkwright_widgets._network_builder._html import layer_rows, layer_table, summary_line
from sparkwright_widgets._network_builder._network_builder import network_block

NASTY = "<img src=x onerror=alert(1)>\"'&"


def look(index, name, *inputs, **fields):
    usual = {"kind": "Dense", "output_shape": (4,), "parameters": 20, "trainable_parameters": 20}
    return LayerAnalysis(index=index, name=name, inputs=inputs, **{**usual, **fields})


def text_of(html):
    return re.sub(r"<[^>]+>", " ", html)


ROWS = (
    look(0, "image", kind="Input", output_shape=(28, 28, 1), parameters=0),
    look(1, "conv", "image", kind="Conv2D", output_shape=None, parameters=None, problem="too big."),
    look(2, "out", "conv", output_shape=None, parameters=None, waiting_for=1),
    look(3, "extra", "conv", enabled=False),
)


def test_row_shows_its_state_and_error():
    rows = layer_rows(ROWS, outputs=["image"])
    words = " ".join(text_of(rows[0]["html"]).split())
    assert words == "1 → Input image output 28 x 28 x 1 no parameters ✓ OK"
    assert [row["state"] for row in rows] == ["ok", "problem", "waiting", "off"]
    assert "too big." in rows[1]["html"]
    assert "waiting for row 2" in rows[2]["html"]
    [typed, *_] = layer_rows(ROWS, mistakes={"image": "`shape` must be integers"})
    assert typed["state"] == "problem"
    assert "`shape` must be integers" in typed["html"]


def test_row_lists_its_inputs_unless_it_uses_the_previous_row():
    rows = (look(0, "a"), look(1, "b", "a"), look(2, "sum", "b", "a"), look(3, "c", "b"))
    htmls = [row["html"] for row in layer_rows(rows)]
    assert ["takes" in html for html in htmls] == [False, False, True, True]
    assert "inputs: b, a" in htmls[2]


def test_names_and_problems_from_users_are_escaped_everywhere():
    rows = (look(0, NASTY, kind=NASTY), look(1, "b", NASTY, "a", problem=NASTY))
    spec = NetworkSpec(
        name=NASTY,
        layers=(LayerSpec(kind="Dense", name=NASTY),),
        outputs=(OutputSpec(layer=NASTY, loss=NASTY, metrics=(NASTY,)),),
    )
    analysis = NetworkAnalysis(rows=rows)
    pieces = [
        *(row["html"] for row in layer_rows(rows, mistakes={"b": NASTY})),
        layer_table(rows, name=NASTY),
        graph_svg(rows, name=NASTY, outputs=[NASTY]),
        summary_line(analysis, NASTY),
        network_block(analysis, spec=spec, name=NASTY, problem=NASTY).html,
    ]
    assert not [piece for piece in pieces if "<img" in piece or "\"'&" in piece]


def test_graph_has_a_box_and_a_description_for_each_enabled_layer():
    svg = graph_svg(ROWS, name="mine", outputs=["out"])
    drawing = ElementTree.fromstring(svg)
    assert len(drawing.findall("{http://www.w3.org/2000/svg}g")) == 3
    assert drawing.get("aria-label") == (
        "Graph of mine, 3 layers. Begins with image. conv (Conv2D) takes image; "
        "out (Dense) takes conv. Outputs: out."
    )
    assert "currentColor" in svg
    assert not re.search(r"#[0-9a-fA-F]{3}", svg)


@given(st.integers(0, 12), st.data())
def test_any_network_is_drawn_as_well_formed_xml(count, data):
    names = [f"l{i}" for i in range(count)]
    rows = [
        look(i, name, *data.draw(st.lists(st.sampled_from(names[:i] or ["l0"]), max_size=3)))
        for i, name in enumerate(names)
    ]
    ElementTree.fromstring(f"<div>{graph_svg(rows, name='n')}</div>")


def test_summary_shows_size_or_problem_with_symbol_and_text():
    whole = NetworkAnalysis(rows=(look(0, "a"), look(1, "b", "a", trainable_parameters=10)))
    assert "✓ Ready 2 layers, 40 parameters (160 B, 10 non-trainable)." in " ".join(
        text_of(summary_line(whole, None)).split()
    )
    broken = summary_line(whole, "Row 2 (b): too big.")
    assert "✕ Not ready Row 2 (b): too big." in " ".join(text_of(broken).split())
    assert 'role="status"' in broken


@cases(
    "rows, is_drawn",
    ((look(0, "a"), look(1, "b", "a")), False),
    ((look(0, "a"), look(1, "off", "a", enabled=False), look(2, "c", "a")), False),
    ((look(0, "a"), look(1, "b", "a"), look(2, "c", "a")), True),
    ((look(0, "a"), look(1, "b")), True),
)
def test_report_draws_only_branched_networks(rows, is_drawn):
    block = network_block(NetworkAnalysis(rows=rows), spec=None, name="n", problem=None)
    assert ("<svg" in block.html) is is_drawn
    last = rows[-1]
    cells = [str(len(rows)), last.name, "Dense", *(last.inputs or "—")]
    assert block.text.splitlines()[-1].split()[:4] == cells


def test_large_network_is_described_but_not_drawn():
    rows = [look(i, f"l{i}", *([f"l{i - 1}"] if i else [])) for i in range(LAYERS_DRAWN + 1)]
    drawn = graph_svg(rows, name="deep")
    assert "<svg" not in drawn
    assert f"{LAYERS_DRAWN + 1} layers" in drawn
    assert len(graph_text(rows, name="deep")) < 3000
