import contextlib
import random
import re
import shutil
import warnings
import zipfile
from functools import partial
from pathlib import Path

import hypothesis.strategies as st
import keras
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from tests.cases import cases
from tests.support.hadoop import java
from tests.support.sandbox import finished

import sparkwright as sw

HERE = Path(__file__).parent
NETWORKS = HERE / "networks"
NAMES = sorted(path.stem for path in NETWORKS.glob("*.npz"))
# What the one warning lists.
LEFT_OUT = {
    "two-updaters": "the updater Nesterovs of 'layer0'; the updater Sgd of 'layer1'",
    "updater-nadam": "the updater's state, because Keras' Nadam has another formula",
}
# Loss and gradient are those of all steps, where Keras takes their mean.
OF_STEPS = {"lstm": 6, "graves-lstm": 6}
RANDOM = {"dropout"}
# Keras' Adam squares the gradients of an index that occurs twice one by one.
ADAM_OF_INDICES = {"text": 1e-2}
SHAPES = {"subsampling": {"input": (9, 8, 2)}}


def imported(path):
    """The model and the normalizer of a file, with exactly the warning that is expected."""
    shapes = SHAPES.get(path.stem)
    if path.stem not in LEFT_OUT:
        return sw.import_dl4j(str(path), input_shapes=shapes)
    with pytest.warns(UserWarning, match=LEFT_OUT[path.stem]):
        return sw.import_dl4j(str(path), input_shapes=shapes)


def arrays(path, what):
    """The arrays of a kind that Deeplearning4j wrote, channels last."""
    with np.load(path.with_suffix(".npz")) as known:
        found = [known[name] for name in sorted(known) if name.rstrip("0123456789") == what]
    is_last = path.stem == "channels-last"
    return [a if is_last or a.ndim < 3 else np.moveaxis(a, 1, -1) for a in found]


def bare(values):
    return values[0] if len(values) == 1 else values


def outputs(model, x):
    return [np.asarray(y) for y in keras.tree.flatten(model(bare(x), training=False))]


def use_gradients_of_deeplearning4j(model, steps):
    """Change a model where Keras has other gradients."""
    if steps > 1:
        model.optimizer.learning_rate = model.optimizer.learning_rate * steps
    for layer in model.layers:
        if isinstance(layer, keras.layers.ELU):
            layer.call = partial(elu_derived_without_alpha, layer.call)


def elu_derived_without_alpha(elu, x):
    derived = keras.ops.elu(x)
    return derived + keras.ops.stop_gradient(elu(x) - derived)


def compare(path):
    """Outputs, loss, and outputs after two more minibatches are those of Deeplearning4j."""
    model, _ = imported(path)
    x, labels = arrays(path, "in"), arrays(path, "labels")
    copy = keras.models.model_from_json(model.to_json())  # as workers build it
    copy.set_weights(model.get_weights())
    model.run_eagerly = True  # tracing costs a second for each network
    for found, expected in zip(outputs(copy, x), arrays(path, "out"), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
    loss = keras.tree.flatten(model.evaluate(bare(x), bare(labels), verbose=0, batch_size=99))[0]
    steps = OF_STEPS.get(path.stem, 1)
    score = float(arrays(path, "score")[0]) / steps
    # Keras clips probabilities at 1e-7, labels of 0 in the Kullback-Leibler divergence as well.
    assert loss == pytest.approx(score, rel=3e-4, abs=1e-5)
    if path.stem in {*LEFT_OUT, *RANDOM}:
        return
    use_gradients_of_deeplearning4j(model, steps)
    for _ in range(2):
        model.train_on_batch(bare(x), bare(labels))
    for found, expected in zip(outputs(model, x), arrays(path, "after"), strict=True):
        # Adam and others add epsilon, and round, in other places.
        atol = ADAM_OF_INDICES.get(path.stem, 2e-4)
        np.testing.assert_allclose(found, expected, atol=atol, rtol=0)


# One of each kind of layer.
SHORT = ("classifier", "convolution", "graph", "graves-lstm", "lenet", "losses", "updater-adam")


@pytest.mark.thorough(but=SHORT)
@cases("name", *NAMES)
def test_network_outputs_match_deeplearning4j(name):
    compare(NETWORKS / f"{name}.zip")


@cases(
    "name, kind, inputs, outputs",
    ("classifier", "Standardize", ["features"], ["labels"]),
    ("regression", "MinMaxScale", ["features"], ["labels"]),
    ("lenet", "ImageScale", ["features"], ["labels"]),
    ("graph", "Standardize", ["image", "numbers"], ["kind", "size"]),
)
def test_normalizer_is_read(name, kind, inputs, outputs):
    path = NETWORKS / f"{name}.zip"
    model, normalizer = imported(path)
    assert type(normalizer).__name__ == kind
    raw = arrays(path, "raw") or arrays(path, "in")
    expected = arrays(path, "normalized"), arrays(path, "normalized-labels")
    labels = [np.ones_like(y) for y in expected[1]]
    if name == "graph":
        labels = arrays(path, "labels")
        assert list(model.output_names) == outputs
    data = sw.DataSet(dict(zip(inputs, raw, strict=True)), dict(zip(outputs, labels, strict=True)))
    found = normalizer.transform(data)
    for ours, theirs in zip((found.features, found.labels), expected, strict=True):
        for each, values in zip(ours.values(), theirs, strict=True):
            np.testing.assert_allclose(each, values, atol=1e-5, rtol=1e-5)


@cases(
    "name, shapes, message",
    ("unmapped", {"input": (4, 5, 2)}, r"zip with 'layer0', a SeparableConvolution2D"),
    ("subsampling", None, r"give `input_shapes=\{'input': …\}`"),
)
def test_part_without_counterpart_raises_with_its_name(name, shapes, message):
    with pytest.raises(sw.DataError, match=message):
        sw.import_dl4j(str(NETWORKS / f"{name}.zip"), input_shapes=shapes)


@cases("width, reason", (6, r"58 parameters where 65"), (10**12, r"of \d+ parameters"))
def test_configuration_not_matching_the_parameters_raises(tmp_path, width, reason):
    path = changed("dense", tmp_path, b'"nout" : 5', f'"nout" : {width}'.encode())
    with pytest.raises(sw.DataError, match=rf"damaged.zip .*{reason}.*Save the network again"):
        sw.import_dl4j(str(path))


@pytest.mark.thorough
@given(data=st.data(), name=st.sampled_from(["dense", "graph", "text"]))
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_changed_configuration_is_read_or_raises_data_error(tmp_path, data, name):
    with zipfile.ZipFile(NETWORKS / f"{name}.zip") as archive:
        text = archive.read("configuration.json")
    values = list(re.finditer(rb'"(?!epsilon)\w+" : ([^\[{,]+)', text))
    start, end = data.draw(st.sampled_from(values)).span(1)
    new = data.draw(st.sampled_from([b"null", b"true", b"-1", b"7", b'"x.Y"', b"[ ]", b"{ }"]))
    path = changed(name, tmp_path, text, text[:start] + new + text[end:])
    with warnings.catch_warnings(), contextlib.suppress(sw.DataError):
        warnings.simplefilter("ignore")
        sw.import_dl4j(str(path))


def changed(name, folder, old, new):
    """A network whose configuration is not what it was."""
    path = folder / "damaged.zip"
    with zipfile.ZipFile(NETWORKS / f"{name}.zip") as source, zipfile.ZipFile(path, "w") as target:
        for each in source.namelist():
            content = source.read(each)
            is_text = each == "configuration.json"
            target.writestr(each, content.replace(old, new) if is_text else content)
    return path


@pytest.mark.slow
@pytest.mark.stores
def test_newly_generated_networks_match_deeplearning4j(tmp_path):
    made = make_networks(tmp_path, seed=random.randrange(1 << 30))
    assert sorted(path.stem for path in made.glob("*.npz")) == sorted([*NAMES, "unmapped"])
    for name in NAMES:
        compare(made / f"{name}.zip")


def make_networks(folder, *, seed):
    """Have Deeplearning4j make all networks; its jars (160 MB) are fetched once, with Maven."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("Maven fetches Deeplearning4j: apt-get install maven")
    jars = Path.home() / ".cache" / "sparkwright" / "dl4j-1.0.0-M2"
    fetch = [maven, "--batch-mode", "--quiet", "--strict-checksums", "-f", str(HERE / "pom.xml")]
    fetch += ["dependency:copy-dependencies", f"-DoutputDirectory={jars}"]
    code, words = finished(fetch, timeout_s=600)
    assert code == 0, words[-2000:]
    program = [java(), "-cp", f"{jars}/*", str(HERE / "Networks.java"), str(folder), str(seed)]
    code, words = finished(program, timeout_s=200)
    assert code == 0, words[-2000:]
    return folder
