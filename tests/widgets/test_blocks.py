from matplotlib.figure import Figure

from sparkwright_widgets.blocks import environment_table, picture, summary


def test_summary_has_the_figures_and_the_configuration(run):
    run.report(0, 1, 0.5)
    run.set(state="done", epoch=5)
    block = summary(run)
    assert "0.5000" in str(block)
    html = block.mimebundle()["text/html"]
    assert "5 of 5" in html
    assert "averaging_frequency" in html


def test_captions_are_accessible_labels_and_figures_share_no_ids():
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    block, other = (picture(figure, caption="a < b") for _ in range(2))
    assert '<svg role="img" aria-label="a &lt; b"' in block.html
    assert "<figcaption>a &lt; b</figcaption>" in block.html
    assert str(block) == "a < b"
    ids = [{part.split('"')[0] for part in each.html.split(' id="')[1:]} for each in (block, other)]
    assert ids[0]
    assert ids[0].isdisjoint(ids[1])


def test_environment_names_python_packages_and_java():
    text = str(environment_table())
    for name in ("Python", "tensorflow", "pyspark", "Java", "Processor cores", "Memory"):
        assert name in text


def test_gradient_sharing_summary_reports_sent_bytes(fake):
    run = fake.FakeRun(sharing=True)
    run.report(0, 1, 0.5)
    run.set(state="done", workers=(fake.FakeWorker(worker=0, sent_bytes=3 * 2**20),))
    assert "3.0 MiB" in str(summary(run))
