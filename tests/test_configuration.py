"""What holds for every configuration: checks, forms, documentation, settings and code."""

import ast
import json
from dataclasses import MISSING, fields
from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from tests.configurations import configurations, refusal

import sparkwright as sw
from sparkwright.configuration import nested_options, plain_options
from sparkwright.data import Augmentation, MaskFile
from sparkwright.errors import ConfigurationError
from sparkwright.experiments import Experiment
from sparkwright.masters import (
    Checkpointing,
    Histograms,
    MeshConfig,
    NtpClock,
    OuterOptimizer,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    SystemClock,
)
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner
from sparkwright.python_code import to_code
from sparkwright.spark import SparkSettings
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
)

MASTERS = [ParameterAveragingTrainingMaster, SharedTrainingMaster]
CLASSES: list[Any] = [
    *MASTERS,
    *(AdaptiveThreshold, FixedThreshold, TargetSparsity, ResidualClipping),
    *(DefaultRepartitioner, NoRepartitioner, MeshConfig, Checkpointing),
    *(SystemClock, NtpClock, OuterOptimizer, Histograms, Augmentation, MaskFile),
]
REQUIRED: dict[Any, dict[str, Any]] = {
    Checkpointing: {"url": "/data/runs/7"},
}
# Options that are valid only beside others.
BESIDE: dict[tuple[Any, str], dict[str, Any]] = {
    (MeshConfig, "chunk_bytes"): {"max_pending_bytes": 2**53},
    (MeshConfig, "max_pending_bytes"): {"chunk_bytes": 1024},
    (AdaptiveThreshold, "min_sparsity"): {"max_sparsity": 2.0**126},
    (AdaptiveThreshold, "max_sparsity"): {"min_sparsity": 2.0**-126},
    (ParameterAveragingTrainingMaster, "exchange_precision"): {"updater": "local"},
    (ParameterAveragingTrainingMaster, "averaging_delay"): {
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


@pytest.mark.parametrize("cls", [*CLASSES, Experiment, SparkSettings])
def test_every_option_is_declared_and_documented(cls: Any) -> None:
    declared = [*plain_options(cls), *nested_options(cls)]
    names = {option.name for option in declared}
    shown = {each.name for each in fields(cls) if each.metadata.get("form", True)}
    assert names == shown - {"hooks", "settings"}
    attributes = cls.__doc__.partition("Attributes:")[2]
    for option in declared:
        assert option.help.endswith("."), option.name
        assert f"\n        {option.name}: " in attributes


@pytest.mark.parametrize("cls", CLASSES)
def test_form_shows_the_defaults(cls: Any) -> None:
    defaults = {each.name: each.default for each in fields(cls) if each.default is not MISSING}
    options = [option for option in plain_options(cls) if option.name in defaults]
    assert len({option.title for option in options}) == len(options)
    for option in options:
        default = defaults[option.name]
        assert option.default == default, option.name
        assert option.parse(option.text(default)) == default, option.name


@pytest.mark.parametrize("cls", [cls for cls in CLASSES if plain_options(cls)])
@settings(max_examples=100)
@given(data=st.data())
def test_constructor_and_form_accept_the_same_values(cls: Any, data: Any) -> None:
    option = data.draw(st.sampled_from(plain_options(cls)))
    value = data.draw(values | st.sampled_from([*option.choices, option.default]))
    others = REQUIRED.get(cls, {}) | BESIDE.get((cls, option.name), {})
    sentence = refusal(option, value)
    try:
        cls(**{**others, option.name: value})
    except ConfigurationError as error:
        refused = str(error)
    else:
        assert sentence is None or (option.name == "ports" and isinstance(value, int))
        return
    # Only the class knows which texts are valid, such as those of an address.
    assert sentence is not None or option.kind == "text"
    assert option.name in refused
    assert "Received: " in refused


@pytest.mark.parametrize("cls", CLASSES)
@settings(max_examples=20)
@given(data=st.data())
def test_settings_create_an_equal_configuration(cls: Any, data: Any) -> None:
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


@pytest.mark.parametrize("cls", CLASSES)
def test_unknown_options_are_rejected(cls: Any) -> None:
    saved = cls(**REQUIRED.get(cls, {})).to_dict()
    inside = saved.get("configuration", saved)
    inside["most"] = 3
    with pytest.raises(ConfigurationError, match=rf"unknown options \['most'\] of {cls.__name__}"):
        cls.from_dict(saved)
    with pytest.raises(ConfigurationError, match="must be a dictionary of options"):
        cls.from_dict([])


@pytest.mark.parametrize("cls", MASTERS)
def test_nested_settings_are_split_and_combined(cls: Any) -> None:
    saved = cls(checkpoint=Checkpointing("/data/runs/7"), time_source=NtpClock()).to_dict()
    off = {"outer_optimizer": OuterOptimizer(), "residual_clipping": ResidualClipping()}
    for option in nested_options(cls):
        if option.name in off:
            saved[option.name] = off[option.name].to_dict()
        kind, inside = option.read(saved[option.name])
        assert kind is not None
        assert [each.name for each in plain_options(option.kinds[kind])] == list(inside)
        assert option.write(kind, inside) == saved[option.name]
        assert option.read(cls().to_dict()[option.name])[0] == option.default


@pytest.mark.parametrize(
    ("setting", "text"),
    [
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
    ],
)
def test_invalid_settings_are_rejected(setting: Any, text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SharedTrainingMaster.from_dict(setting)
    assert text in str(refused.value)


def test_numpy_numbers_and_exponents_are_written_as_numbers() -> None:
    master = SharedTrainingMaster(periodic_gc_interval_s=np.float64(2.5))
    assert SharedTrainingMaster.from_yaml(master.to_yaml()) == master
    # PyYAML alone reads 1e-3 as text.
    written = "threshold: {name: fixed, configuration: {threshold: 1e-3}}\nresidual_clipping: null"
    assert SharedTrainingMaster.from_yaml(written) == SharedTrainingMaster(
        threshold=FixedThreshold(threshold=1e-3), residual_clipping=None
    )


def test_yaml_creates_no_objects() -> None:
    with pytest.raises(ConfigurationError, match="could not determine a constructor"):
        MeshConfig.from_yaml("mode: !!python/object/apply:os.getpid []")


def test_code_contains_only_non_default_options() -> None:
    assert to_code(OuterOptimizer(momentum=0.5)) == "sw.OuterOptimizer(momentum=0.5)"
    assert to_code((np.float64(0.3), {"a": np.float64(2)})) == '(0.3, {"a": 2.0})'
    named = {"workers": "count"}
    assert to_code(SharedTrainingMaster(), named=named) == "sw.SharedTrainingMaster(workers=count)"
    assert eval(to_code(MeshConfig(ports=5)), {"sw": sw}) == MeshConfig(ports="5")


@pytest.mark.thorough
@given(
    st.recursive(
        st.text() | st.integers() | st.none() | st.booleans(),
        lambda inner: (
            st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner)
        ),
    )
)
def test_code_of_a_plain_value_is_the_value(value: Any) -> None:
    assert ast.literal_eval(to_code(value)) == value


def test_code_and_settings_hide_secrets() -> None:
    spark = SparkSettings(settings={"spark.p.password": "abc"})
    for text in (to_code(spark), to_code(Experiment(spark=spark)), spark.to_yaml(), repr(spark)):
        assert "spark.p.password" in text
        assert "abc" not in text
