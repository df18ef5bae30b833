import ast
import json
from dataclasses import MISSING, fields
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.cases import cases
from tests.configurations import configurations, refusal

import sparkwright as sw
from sparkwright.configuration import nested_options, plain_options
from sparkwright.data import MaskFile
from sparkwright.python_code import to_code

MASTERS = [sw.ParameterAveragingTrainingMaster, sw.SharedTrainingMaster]
CLASSES = [
    *MASTERS,
    *(sw.AdaptiveThreshold, sw.FixedThreshold, sw.TargetSparsity, sw.ResidualClipping),
    *(sw.DefaultRepartitioner, sw.NoRepartitioner, sw.MeshConfig, sw.Checkpointing),
    *(sw.SystemClock, sw.NtpClock, sw.OuterOptimizer, sw.Histograms, MaskFile),
]
REQUIRED = {sw.Checkpointing: {"url": "/data/runs/7"}}
# Options that are valid only beside others.
BESIDE = {
    (sw.MeshConfig, "chunk_bytes"): {"max_pending_bytes": 2**53},
    (sw.MeshConfig, "max_pending_bytes"): {"chunk_bytes": 1024},
    (sw.AdaptiveThreshold, "min_sparsity"): {"max_sparsity": 2.0**126},
    (sw.AdaptiveThreshold, "max_sparsity"): {"min_sparsity": 2.0**-126},
    (sw.ParameterAveragingTrainingMaster, "exchange_precision"): {"updater": "local"},
    (sw.ParameterAveragingTrainingMaster, "averaging_delay"): {
        "updater": "local",
        "averaging_frequency": 2**31 - 1,
    },
    **{(master, "export_directory"): {"training_approach": "export"} for master in MASTERS},
}
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(1, 2**70),
    st.sampled_from([10**400, -(10**400), 2**31, [1], {"name": "x"}, b"/data"]),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([{1: 1, 3: 5}, {2: 5}, {3: 1, 1: 1}, {1: 0}, {1: True}, {1: 2**31}, {}]),
    st.sampled_from([0.5, 1.0, 1 / 16, 2, 64, 65, 1023, 1024, 2.0**-126, 2.0**127]),
    st.text(max_size=5),
)


@cases("cls", *CLASSES, sw.Experiment, sw.SparkSettings)
def test_every_option_is_declared_and_documented(cls):
    declared = [*plain_options(cls), *nested_options(cls)]
    names = {option.name for option in declared}
    shown = {each.name for each in fields(cls) if each.metadata.get("form", True)}
    assert names == shown - {"hooks", "settings"}
    attributes = cls.__doc__.partition("Attributes:")[2]
    for option in declared:
        assert option.help.endswith("."), option.name
        assert f"\n        {option.name}: " in attributes


@cases("cls", *CLASSES)
def test_form_shows_the_defaults(cls):
    defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
    options = [option for option in plain_options(cls) if option.name in defaults]
    assert len({option.title for option in options}) == len(options)
    for option in options:
        default = defaults[option.name]
        assert option.default == default, option.name
        assert option.parse(option.text(default)) == default, option.name


@cases("cls", *[cls for cls in CLASSES if plain_options(cls)])
@settings(max_examples=100)
@given(data=st.data())
def test_constructor_and_form_accept_the_same_values(cls, data):
    option = data.draw(st.sampled_from(plain_options(cls)))
    value = data.draw(values | st.sampled_from([*option.choices, option.default]))
    others = REQUIRED.get(cls, {}) | BESIDE.get((cls, option.name), {})
    sentence = refusal(option, value)
    try:
        cls(**{**others, option.name: value})
    except sw.ConfigurationError as error:
        refused = str(error)
    else:
        assert sentence is None or (option.name == "ports" and isinstance(value, int))
        return
    # Only the class knows which texts are valid, such as those of an address.
    assert sentence is not None or option.kind == "text"
    assert option.name in refused
    assert "Received: " in refused


@cases("cls", *CLASSES)
@settings(max_examples=20)
@given(data=st.data())
def test_settings_create_an_equal_configuration(cls, data):
    made = data.draw(configurations(cls))
    saved = made.to_dict()
    assert cls.from_dict(saved) == made
    assert saved == made.to_dict()  # reading has not changed it
    assert cls.from_json(made.to_json()) == made
    assert cls.from_yaml(made.to_yaml()) == made
    assert json.loads(json.dumps(saved)) == saved
    shown = {name: getattr(sw, name) for name in dir(sw)}
    names = SimpleNamespace(**{**shown, cls.__name__: cls})
    assert eval(to_code(made), {"sw": names, "inf": np.inf}) == made


@cases("cls", *CLASSES)
def test_unknown_options_are_rejected(cls):
    saved = cls(**REQUIRED.get(cls, {})).to_dict()
    inside = saved.get("configuration", saved)
    inside["most"] = 3
    with pytest.raises(
        sw.ConfigurationError, match=rf"unknown options \['most'\] of {cls.__name__}"
    ):
        cls.from_dict(saved)
    with pytest.raises(sw.ConfigurationError, match="must be a dictionary of options"):
        cls.from_dict([])


@cases("cls", *MASTERS)
def test_nested_settings_are_split_and_combined(cls):
    saved = cls(checkpoint=sw.Checkpointing("/data/runs/7"), time_source=sw.NtpClock()).to_dict()
    off = {"outer_optimizer": sw.OuterOptimizer(), "residual_clipping": sw.ResidualClipping()}
    for option in nested_options(cls):
        if option.name in off:
            saved[option.name] = off[option.name].to_dict()
        kind, inside = option.read(saved[option.name])
        assert kind is not None
        assert [each.name for each in plain_options(option.kinds[kind])] == list(inside)
        assert option.write(kind, inside) == saved[option.name]
        assert option.read(cls().to_dict()[option.name])[0] == option.default


@cases(
    "setting, text",
    ({"threshold": {"name": "magic"}}, "`threshold` must be named one of 'adaptive', 'target'"),
    ({"threshold": {"name": ["fixed"]}}, "Received: name=['fixed']"),
    ({"threshold": {"name": "fixed", "configuration": {"t": 1}}}, "unknown options ['t']"),
    ({"threshold": {"name": "fixed", "configuration": 5}}, "must be a dictionary of options"),
    ({"threshold": "fixed"}, "`threshold` must be a dictionary of options"),
    ({"residual_clipping": {"multiple": 0.5}}, "Received: multiple=0.5."),
    ({"repartitioner": {"name": "Thirds"}}, "`dataclasses.replace(…, repartitioner=…)`"),
    ({"checkpoint": {"every_s": 5}}, "`url` must be given"),
    ({"mesh": {"mode": "ring"}}, "Received: mode='ring'."),
    ({"name": "ParameterAveragingTrainingMaster"}, "must be 'SharedTrainingMaster' here"),
)
def test_invalid_settings_are_rejected(setting, text):
    with pytest.raises(sw.ConfigurationError) as refused:
        sw.SharedTrainingMaster.from_dict(setting)
    assert text in str(refused.value)


def test_numpy_numbers_and_exponents_are_written_as_numbers():
    master = sw.SharedTrainingMaster(periodic_gc_interval_s=np.float64(2.5))
    assert sw.SharedTrainingMaster.from_yaml(master.to_yaml()) == master
    # PyYAML alone reads 1e-3 as text.
    written = "threshold: {name: fixed, configuration: {threshold: 1e-3}}\nresidual_clipping: null"
    assert sw.SharedTrainingMaster.from_yaml(written) == sw.SharedTrainingMaster(
        threshold=sw.FixedThreshold(threshold=1e-3), residual_clipping=None
    )


def test_yaml_creates_no_objects():
    with pytest.raises(sw.ConfigurationError, match="could not determine a constructor"):
        sw.MeshConfig.from_yaml("mode: !!python/object/apply:os.getpid []")


def test_code_contains_only_non_default_options():
    assert to_code(sw.OuterOptimizer(momentum=0.5)) == "sw.OuterOptimizer(momentum=0.5)"
    assert to_code((np.float64(0.3), {"a": np.float64(2)})) == '(0.3, {"a": 2.0})'
    named = {"workers": "count"}
    assert (
        to_code(sw.SharedTrainingMaster(), named=named) == "sw.SharedTrainingMaster(workers=count)"
    )
    assert eval(to_code(sw.MeshConfig(ports=5)), {"sw": sw}) == sw.MeshConfig(ports="5")


@pytest.mark.thorough
@given(
    st.recursive(
        st.text() | st.integers() | st.none() | st.booleans(),
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner)
        ),
    )
)
def test_code_of_a_plain_value_is_the_value(value):
    assert ast.literal_eval(to_code(value)) == value


def test_code_and_settings_hide_secrets():
    spark = sw.SparkSettings(settings={"spark.p.password": "abc"})
    for text in (to_code(spark), to_code(sw.Experiment(spark=spark)), spark.to_yaml(), repr(spark)):
        assert "spark.p.password" in text
        assert "abc" not in text
