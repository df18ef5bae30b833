"""What forms say about options is what the classes do."""

from dataclasses import MISSING, fields
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from sparkwright.errors import ConfigurationError
from sparkwright.masters import (
    Checkpointing,
    EarlyStopping,
    MeshConfig,
    NtpClock,
    ParameterAveragingTrainingMaster,
    SharedTrainingMaster,
    SystemClock,
    nested_options,
    options_of_master,
)
from sparkwright.partitions import DefaultRepartitioner, NoRepartitioner
from sparkwright.updates import (
    AdaptiveThreshold,
    FixedThreshold,
    ResidualClipping,
    TargetSparsity,
)

MASTERS = [ParameterAveragingTrainingMaster, SharedTrainingMaster]
NESTED = [
    *(AdaptiveThreshold, FixedThreshold, TargetSparsity, ResidualClipping),
    *(DefaultRepartitioner, NoRepartitioner, MeshConfig, Checkpointing),
    *(SystemClock, NtpClock),
]
CLASSES = [*MASTERS, EarlyStopping, *NESTED]
OPTIONS = [(cls, option) for cls in CLASSES for option in options_of_master(cls)]
IDS = [f"{cls.__name__}.{option.name}" for cls, option in OPTIONS]
# Options that make sense only beside others.
BESIDE: dict[tuple[type[Any], str], dict[str, Any]] = {
    (MeshConfig, "chunk_bytes"): {"max_pending_bytes": 2**53},
    (MeshConfig, "max_pending_bytes"): {"chunk_bytes": 1024},
    (AdaptiveThreshold, "min_sparsity"): {"max_sparsity": 2.0**126},
    (AdaptiveThreshold, "max_sparsity"): {"min_sparsity": 2.0**-126},
    **{(master, "export_directory"): {"training_approach": "export"} for master in MASTERS},
}
NEEDED: dict[type[Any], dict[str, Any]] = {
    Checkpointing: {"url": "/data/runs/7"},
    EarlyStopping: {"max_epochs": 3, "patience": 3},
}
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.integers(1, 2**70),
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.5, 1.0, 1 / 16, 2, 64, 65, 1023, 1024, 2.0**-126, 2.0**127]),
    st.text(max_size=5),
)


def refusal(option: Any, value: Any) -> str | None:
    """What the option's description says against a value; None: nothing."""
    try:
        option.check(value)
    except ConfigurationError as error:
        return str(error)
    return None


@pytest.mark.parametrize("cls", CLASSES)
def test_every_option_is_described_once_except_hooks(cls: type[Any]) -> None:
    plain = [option.name for option in options_of_master(cls)]
    nested = [option.name for option in nested_options(cls)] if cls in MASTERS else []
    assert len({*plain, *nested}) == len(plain) + len(nested)
    assert {*plain, *nested} == {field.name for field in fields(cls)} - {"hooks"}


@pytest.mark.parametrize(("cls", "option"), OPTIONS, ids=IDS)
def test_a_form_begins_with_the_default(cls: type[Any], option: Any) -> None:
    field = next(field for field in fields(cls) if field.name == option.name)
    if (cls, option.name) == (Checkpointing, "url"):
        assert field.default is MISSING
        return
    assert option.default == field.default
    assert type(option.default) is type(field.default)


@pytest.mark.parametrize(("cls", "option"), OPTIONS, ids=IDS)
def test_every_option_has_advice_and_a_title_of_its_own(cls: type[Any], option: Any) -> None:
    assert option.advice.endswith(".")
    assert len(option.advice) <= 220
    titles = [other.title for other in options_of_master(cls)]
    assert titles.count(option.title) == 1


@pytest.mark.parametrize(("cls", "option"), OPTIONS, ids=IDS)
@settings(max_examples=40)
@given(data=st.data())
def test_a_form_refuses_what_the_class_refuses(cls: type[Any], option: Any, data: Any) -> None:
    choices = st.sampled_from([*option.choices, option.default])
    value = data.draw(values | choices)
    others = NEEDED.get(cls, {}) | BESIDE.get((cls, option.name), {})
    try:
        cls(**{**others, option.name: value})
    except ConfigurationError:
        accepted = False
    else:
        accepted = True
    sentence = refusal(option, value)
    if sentence is None:
        # What a text may be, such as an address, only the class knows.
        assert accepted or option.kind == "text"
    else:
        assert f"`{option.name}`" in sentence
        # Ports may be a number, too; in a form they are text.
        assert not accepted or (option.name == "ports" and isinstance(value, int))


@pytest.mark.parametrize(("cls", "option"), OPTIONS, ids=IDS)
def test_what_a_form_shows_is_read_back(cls: type[Any], option: Any) -> None:
    assert option.parse(option.text(option.default)) == option.default


@pytest.mark.parametrize("cls", MASTERS)
def test_nested_options_take_settings_apart_and_put_them_together(cls: type[Any]) -> None:
    saved = cls(checkpoint=Checkpointing("/data/runs/7"), time_source=NtpClock()).to_dict()
    for option in nested_options(cls):
        kind, given = option.read(saved[option.name])
        assert kind in option.kinds
        names = [each.name for each in options_of_master(option.kinds[kind])]
        assert list(given) == [field.name for field in fields(option.kinds[kind]) if field.init]
        assert set(names) == set(given)
        assert option.write(kind, given) == saved[option.name]


@pytest.mark.parametrize("cls", MASTERS)
def test_nested_options_begin_with_the_default(cls: type[Any]) -> None:
    saved = cls().to_dict()
    for option in nested_options(cls):
        assert option.read(saved[option.name])[0] == option.default
        assert option.optional or option.default is not None
        assert option.advice.endswith(".")


def test_what_is_not_described_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="options are described of"):
        options_of_master(int)
    with pytest.raises(ConfigurationError, match="nested options are described of"):
        nested_options(EarlyStopping)
    with pytest.raises(ConfigurationError, match="`checkpoint` must be a dictionary"):
        nested_options(SharedTrainingMaster)[3].read("/data/runs/7")
