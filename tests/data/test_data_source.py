import inspect
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases

import sparkwright as sw
from sparkwright.data import DataSource, DataSplit, MaskFile, PatternLabel
from sparkwright.data.formats import FORMATS
from sparkwright.errors import ConfigurationError, DataError
from sparkwright.spark import _network_prediction

NAMES = st.text(min_size=1, max_size=12)
CLASSES = st.just("infer") | st.integers(1, 9) | st.lists(NAMES, min_size=1, unique=True).map(tuple)
TEXTS = {
    "delimiter": st.sampled_from([",", ";", "tab", "\t", "|", "space"]),
    "quote": st.sampled_from(['"', "'", None]),
    "encoding": st.sampled_from(["utf-8", "latin-1"]),
    "pattern": st.sampled_from(["_", "-", r"\d+"]),
}


def values_of(option):
    if option.name in TEXTS:
        return TEXTS[option.name]
    match option.kind:
        case "flag":
            return st.booleans()
        case "choice":
            return st.sampled_from(option.choices)
        case "int":
            return st.integers(int(option.minimum or 0), 500)
        case "float":
            return st.floats(-10, 10) | st.sampled_from([value for _, value in option.words])
        case "texts":
            return st.lists(NAMES, unique=True)
        case _:
            return st.none() | NAMES if option.optional else NAMES


@st.composite
def sources(draw):
    format = draw(st.sampled_from(list(FORMATS)))
    options = {
        option.name: draw(values_of(option))
        for option in FORMATS[format].options
        if draw(st.booleans())
    }
    classes = draw(CLASSES)
    return DataSource(
        format=format,
        url=draw(st.text(max_size=20)),
        features=tuple(draw(st.lists(NAMES, max_size=5, unique=True))),
        label=draw(st.none() | NAMES),
        task=draw(st.sampled_from(["classification", "regression", "other"])),
        classes=classes,
        options=options,
        partitions=draw(st.none() | st.integers(1, 99)),
        split=DataSplit(validation=draw(st.sampled_from([0.0, 0.1])), seed=draw(st.integers(0, 9))),
    )


class Recorder:
    """Stands for `sw`: notes which function of `sw.data` is called with what."""

    def __init__(self):
        self.calls = []
        self.data = self
        self.PatternLabel, self.MaskFile = PatternLabel, MaskFile

    def __getattr__(self, name):
        def call(*arguments, **options):
            self.calls.append((name, arguments, options))
            return "loaded"

        return call


SPARK = SimpleNamespace(table=lambda name: ("table", name))


@given(sources())
def test_source_round_trips_through_its_dict(source):
    assert DataSource.from_dict(source.to_dict()) == source


@given(sources())
def test_generated_code_calls_the_reader_with_the_same_arguments(source):
    try:
        keywords = source.arguments
    except ConfigurationError:
        assert source.problem is not None
        return
    recorder = Recorder()
    names = {"sw": recorder, "spark": SPARK}
    exec(compile(source.to_code("found"), "code", "exec"), names)
    assert names["found"] == "loaded"
    [(function, arguments, options)] = recorder.calls
    place = {"digits": (SPARK,), "table": (("table", source.url),)}
    assert getattr(sw.data, function) is source.info.reader
    assert arguments == place.get(source.format, (SPARK, source.url))
    assert options == keywords


@cases(
    "format, settings, arguments",
    (
        "csv",
        {
            "label": "column_2",
            "categories": ("column_0",),
            "options": {"delimiter": "tab", "header": False, "missing": -1.0, "quote": '"'},
        },
        {
            "labels": "column_2",
            "classes": "infer",
            "categories": {"column_0": "infer"},
            "delimiter": "\t",
            "header": False,
            "missing": -1.0,
        },
    ),
    (
        "images",
        {"options": {"label_from": "name", "height": 32}},
        {"size": (32, 64), "label": PatternLabel(pattern="_")},
    ),
    (
        "images",
        {"options": {"label_from": "mask", "mask_folder": "masks"}},
        {"size": (64, 64), "label": MaskFile(folder="masks")},
    ),
    ("images", {"options": {"label_from": "none"}}, {"size": (64, 64), "label": None}),
)
def test_choices_become_arguments_of_the_reader(format, settings, arguments):
    assert DataSource(format=format, url="x", **settings).arguments == arguments


def test_settings_as_in_files_are_read():
    settings = {"format": "csv", "classes": ["a", "b"], "options": {"delimiter": "tab"}}
    source = DataSource.from_dict({**settings, "split": {"test": 0.2, "seed": 3}})
    assert (source.classes, dict(source.options)) == (("a", "b"), {"delimiter": "\t"})
    assert source.split == DataSplit(test=0.2, seed=3)


@cases(
    "source, words",
    (DataSource(format="csv"), "Enter the location"),
    (DataSource(format="csv", url="a"), "Select the label column"),
    (DataSource(format="csv", url="a", label="y", features=("x", "y")), "among the features"),
    (DataSource(format="csv", url="a", label="y", options={"delimiter": "ab"}), "delimiter"),
    (
        DataSource(format="images", url="a", options={"label_from": "name", "pattern": "("}),
        "pattern",
    ),
    (DataSource(format="images", url="a", classes=3), "classes"),
    (DataSource(format="table", url="t", label="y"), "Select the features"),
    (DataSource(format="tfrecord", url="t", label="y"), "features"),
)  # fmt: skip
def test_incomplete_source_names_missing_options(source, words):
    assert words in (source.problem or "")
    assert DataSource().problem is None
    with pytest.raises(ConfigurationError, match="not complete"):
        source.load(None)


@cases(
    "settings",
    {"format": "xml"},
    {"url": 3},
    {"features": "ab"},
    {"features": ["a", "a"]},
    {"label": 3},
    {"task": "guess"},
    {"classes": "cat"},
    {"options": {"color": 1}},
    {"format": "csv", "options": {"header": "yes"}},
    {"partitions": 0},
    {"split": 0.5},
    {"format": ["csv"]},
    {"format": "csv", "options": {"missing": ["skip"]}},
    {"format": "csv", "options": {"missing": 10**400}},
    {"format": "csv", "options": {"missing_values": [1]}},
    {"split": {"kind": ["random"]}},
    {"split": {"holdout": 0.5}},
    {"rows": 5},
)
def test_invalid_settings_are_rejected(settings):
    with pytest.raises(ConfigurationError, match=r"Received|unknown options"):
        DataSource.from_dict(settings)


@given(
    st.floats(0, 0.9).map(lambda share: round(share, 3)),
    st.floats(0, 0.9).map(lambda share: round(share, 3)),
)
def test_split_fractions_sum_to_one_and_train_is_first(validation, test):
    if validation + test > 0.95 + 1e-9:
        with pytest.raises(ConfigurationError, match="leave at least"):
            DataSplit(validation=validation, test=test)
        return
    shares = DataSplit(validation=validation, test=test).shares
    assert sum(shares.values()) == pytest.approx(1)
    assert next(iter(shares)) == "train"
    assert min(shares.values()) > 0


def test_code_of_a_split_names_its_parts():
    split = DataSplit(test=0.2, kind="stratified", seed=3)
    assert split.to_code() == (
        "train, validation, test = data.stratified_split([0.7, 0.1, 0.2], seed=3)\n"
    )
    assert DataSplit(validation=0.0, test=0.0).to_code() == ""
    assert DataSource().split.shares == {"train": 0.8, "validation": 0.1, "test": 0.1}


@cases("name", *FORMATS)
def test_options_match_the_signature_of_the_reader(name):
    info = FORMATS[name]
    parameters = inspect.signature(info.reader).parameters
    given = DataSource(format=name, url="x").arguments
    assert set(given) <= set(parameters)
    for option in info.options:
        if name == "images" and option.name not in parameters:
            continue  # size and label are made of several options
        assert option.default == parameters[option.name].default
        assert option.parse(option.text(option.default)) == option.default
        option.check(option.default)


@pytest.mark.thorough
def test_table_in_the_spark_session_is_loaded(spark):
    spark.createDataFrame([(1.0, 2.0), (3.0, 4.0)], "x double, y double").createOrReplaceTempView(
        "points"
    )
    source = DataSource(
        format="table", url="points", features=("x",), label="y", task="regression",
        split=DataSplit(validation=0.0, test=0.0),
    )  # fmt: skip
    [(name, data)] = source.load_split(spark).items()
    assert name == "train"
    assert data.collect().columns()["labels/labels"].tolist() == [2.0, 4.0]


def test_a_network_trains_on_a_source_or_a_url(monkeypatch):
    network = _network_prediction.PredictingNetwork(SPARK, None, normalizer=None)
    monkeypatch.setattr(DataSource, "load", lambda source, spark: (source.format, spark))
    monkeypatch.setattr(_network_prediction, "from_minibatches", lambda spark, url: (url, spark))
    assert network._distributed(DataSource(), "data") == ("digits", SPARK)
    assert network._distributed("exports/train", "data") == ("exports/train", SPARK)
    with pytest.raises(DataError, match="`validation` must be a DistributedDataSet, a DataSource"):
        network._distributed(5, "validation")


@pytest.mark.thorough
def test_data_is_loaded_and_split_by_the_source(spark, tmp_path):
    lines = ["a,b,kind"] + [f"{row},{row % 7},{'xy'[row % 2]}" for row in range(200)]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    source = DataSource(
        format="csv",
        url=str(tmp_path / "data.csv"),
        label="kind",
        partitions=2,
        split=DataSplit(validation=0.25, test=0.25, kind="stratified"),
    )
    names = {"sw": sw, "spark": spark}
    exec(source.to_code(), names)
    parts = source.load_split(spark)
    assert list(parts) == ["train", "validation", "test"]
    assert [part.count() for part in parts.values()] == [100, 50, 50]
    assert parts["test"].class_names == {"labels": ("x", "y")}
    assert names["data"].fingerprint == source.load(spark).fingerprint
