"""The pictures of docs/images: each 1280 and 420 pixels wide, light and dark; `make screenshots`.

SPARKWRIGHT_PICTURES names the folder of the documents' pictures; without it nothing is drawn.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.browser.conftest import FAKE_RUN, SCREENSHOTS
from tests.browser.test_evaluation_panel import CELL as EVALUATION
from tests.browser.test_model_store import CELL as MODELS, FAKE_STORE

PICTURES = os.environ.get("SPARKWRIGHT_PICTURES")
SIZES = ((1280, "light"), (420, "light"), (1280, "dark"), (420, "dark"))
# Of each picture the documents show the wide, light one; and these.
ALSO_SHOWN = {"workbench-420-dark": "workbench-narrow"}
PANEL = ".sparkwright-panel"

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(PICTURES is None, reason="`make screenshots` draws the documents' pictures"),
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Picture:
    """A picture: the cell to run, what is in view when it is ready, and what is photographed."""

    cell: str
    ready: str
    files: tuple[Path, ...] = ()
    shown: str = PANEL  # empty: the whole page


DATA = """
from sparkwright_widgets import DataPicker
picker = DataPicker()
picker.settle()
picker
"""
PARTITIONS = """
from sparkwright.partitions import PartitionSurvey
from sparkwright_widgets._partition_preview import PartitionPreview
rows = [5200, 800, 2100, 60, 1900, 400]
labels = [[round(n * s) for s in shares] for n, shares in zip(rows, [
    (.7, .1, .1, .1), (.25, .25, .25, .25), (.1, .6, .2, .1), (0, 0, 1, 0), (.2, .2, .2, .4),
    (.3, .3, .3, .1)])]
survey = PartitionSurvey(
    rows=tuple(map(sum, labels)), label_counts=tuple(map(tuple, labels)),
    class_names=("cat", "dog", "owl", "a very long name of a class"))
preview = PartitionPreview(survey, workers=3)
preview
"""
BUILDER = "from sparkwright_widgets import NetworkBuilder\nNetworkBuilder()"
MASTER = """
import sparkwright as sw
from sparkwright_widgets import TrainingMasterPicker
picker = TrainingMasterPicker()
picker.set_context(rows=[20_000, 20_000, 19_990], network=sw.networks.PRESETS["lenet"].make(
    input_shape=(28, 28, 1), classes=10), slots=4)
picker
"""
RUN = """
import fake_run
from sparkwright_widgets.display import panel_for
run = fake_run.FakeRun()
run.begin(epochs=400, rounds=10, steps_per_s=60)
panel_for(run)
"""
RUNS = """
import os
os.environ["SPARKWRIGHT_RUNS"] = "runs.sqlite"
import keras
import sparkwright as sw
from sklearn.datasets import load_digits
from sparkwright_widgets import RunsTable
features, labels = load_digits(return_X_y=True)
features = (features / 16).astype("float32")
train, test = sw.DataSet(features[:1437], labels[:1437]), sw.DataSet(features[1437:], labels[1437:])
names = ("lucid-thrush", "deep-meadow", "vivid-hawk", "pale-hill")
settings = ((32, 0.001), (32, 0.01), (8, 0.01), (8, 0.001))
for name, (batch_size, learning_rate) in zip(names, settings):
    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((64,)), layers.Dense(128, "relu"), layers.Dense(10, "softmax")])
    model.compile(keras.optimizers.Adam(learning_rate), "sparse_categorical_crossentropy",
                  metrics=["accuracy"])
    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=batch_size)
    with sw.ParallelWrapper(model, master, workers=2) as wrapper:
        wrapper.fit(train, epochs=12, validation=test, display=False, name=name)
table = RunsTable()
table.store.tag("lucid-thrush", "baseline")
table.store.tag("vivid-hawk", "best")
table.select("vivid-hawk", "deep-meadow", "lucid-thrush")
table
"""
WORKBENCH = """
import sparkwright as sw
from sparkwright_widgets import Workbench
bench = Workbench(experiment=sw.Experiment(title="Handwritten digits", epochs=400))
display(bench)
bench.load_data()
bench.open_step("train")
run = bench.start()
while run.status.state != "training" or len(run.log) < 400:
    import asyncio
    await asyncio.sleep(0.2)
"""
ALL = {
    "data": Picture(cell=DATA, ready="text=all 1,797 images"),
    "builder": Picture(cell=BUILDER, ready="text=8 layers, 431,080 parameters"),
    "master": Picture(cell=MASTER, ready=".sparkwright-forecast"),
    "partitions": Picture(cell=PARTITIONS, ready=".sparkwright-bars svg"),
    "evaluation": Picture(cell=EVALUATION, ready=".sparkwright-threshold-point"),
    "models": Picture(
        cell=f"{MODELS}\nstore.refresh()\nstore", ready="text=4 models in", files=(FAKE_STORE,)
    ),
    "run": Picture(cell=RUN, ready=".sparkwright-chart canvas", files=(FAKE_RUN,)),
    "runs": Picture(cell=RUNS, ready="text=4 runs; 3 selected."),
    "workbench": Picture(
        cell=WORKBENCH, ready=".sparkwright-chart canvas", shown=".sparkwright-bench"
    ),
}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ALL)
def test_screenshot_is_drawn(lab_of, name):
    picture = ALL[name]
    whole = not picture.shown
    page = lab_of(picture.cell, files=picture.files, height=1000 if whole else 2600)
    page.page.locator(picture.ready).first.wait_for(timeout=120_000)
    page.wait_idle(120)
    drawn = []
    for width, theme in SIZES:
        page.set_theme(theme.title())
        page.page.set_viewport_size({"width": width, "height": 1000 if whole else 2600})
        page.page.wait_for_timeout(1500)  # until figures and chart have taken the new width
        file = f"{name}-{width}-{theme}"
        drawn.append(page.screenshot(f"docs/{file}") if whole else _part(page, picture, file))
        shown = name if (width, theme) == SIZES[0] else ALSO_SHOWN.get(file)
        if shown is not None:
            drawn.append(Path(shutil.copy(drawn[-1], Path(PICTURES) / f"{shown}.png")))
    for each in drawn:
        print(each.resolve())
        assert each.stat().st_size > 10_000


def _part(page, picture, file):
    path = SCREENSHOTS / "docs" / f"{file}.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    page.page.locator(picture.shown).first.screenshot(path=path)
    return path
