import pytest
from hypothesis import Phase, given, settings, strategies as st
from tests.configurations import configurations

import sparkwright as sw
from sparkwright.configuration import nested_options, plain_options
from sparkwright.experiments import EarlyStoppingOptions, ReduceLROnPlateauOptions
from sparkwright.options import Option
from sparkwright_widgets._partition_preview._choice import Choice
from sparkwright_widgets._ui import (
    Checkbox,
    ConfigurationForm,
    OptionForm,
    changed_options,
    values_of,
)

pytestmark = pytest.mark.usefixtures("comms")

CONFIGURATIONS = [
    *(
        sw.ParameterAveragingTrainingMaster,
        sw.SharedTrainingMaster,
        sw.MeshConfig,
        sw.Checkpointing,
    ),
    *(EarlyStoppingOptions, ReduceLROnPlateauOptions, sw.SparkSettings, Choice),
]

LEVEL = Option(name="level", kind="choice", choices=("memory", "disk"), optional=True)
COUNT = Option(name="count", kind="int", default=5, minimum=1, help="5 is <safe>.")
FLAG = Option(name="shuffle", kind="flag", default=True, group="More")


@pytest.fixture
def form():
    return OptionForm([LEVEL, COUNT, FLAG])


def test_none_option_is_shown_with_its_meaning(form):
    control = form.fields["level"].control
    assert control.label == "(automatic)"
    control.value = "disk"
    assert form.values["level"] == "disk"
    control.value = ""
    assert form.values["level"] is None


def test_choices_need_not_be_text():
    form = OptionForm([Option(name="threads", kind="choice", choices=(1, 2, True), default=2)])
    form.fields["threads"].control.value = "1"
    assert form.values == {"threads": 1}


def test_error_is_shown_at_the_field_and_the_last_valid_value_stays(form):
    told = []
    form.on_change(told.append)
    field = form.fields["count"]
    field.control.value = "0"
    assert form.values["count"] == 5
    assert "count=0" in form.problems["count"]
    assert 'role="alert"' in field.alert.value
    field.control.value = "7"
    assert form.problems == {}
    assert field.alert.value == ""
    assert form.changed_values == {"count": 7}
    assert told == ["count", "count"]


def test_error_stays_until_the_field_is_changed(form):
    form.complain("count", "must be smaller than the rows")
    assert form.problems == {"count": "must be smaller than the rows"}
    form.fields["count"].control.value = "2"
    assert form.problems == {}


def test_advice_is_escaped_and_groups_are_collapsible(form):
    assert "5 is &lt;safe&gt;." in form.fields["count"].advice.value
    assert list(form.folds) == ["More"]
    assert not form.folds["More"].opened


def type_in(form, value):
    """Type the options of a configuration, as a user does."""
    for group in form.groups.values():
        group.set_opened(True)
    for option in plain_options(type(value)):
        control = form.field(option.name).control
        held = getattr(value, option.name)
        control.value = bool(held) if isinstance(control, Checkbox) else option.text(held)
    for nested in nested_options(type(value)):
        held = getattr(value, nested.name)
        names = [name for name, kind in nested.kinds.items() if type(held) is kind]
        if nested.optional or len(nested.kinds) > 1:
            control = form.field(nested.name).control
            several = len(nested.kinds) > 1
            control.value = (names or [""])[0] if several else bool(names)
        if held is not None:
            inside = form._fields[nested.name].form
            type_in(inside, held)


def has_spaces(value):
    """Whether a text begins or ends with spaces, which forms take off."""
    texts = [getattr(value, option.name) for option in plain_options(type(value))]
    inside = [getattr(value, nested.name) for nested in nested_options(type(value))]
    return any(isinstance(text, str) and text != text.strip() for text in texts) or any(
        has_spaces(each) for each in inside if each is not None
    )


@pytest.mark.parametrize("cls", CONFIGURATIONS)
@settings(max_examples=4, phases=[Phase.generate])
@given(data=st.data())
def test_form_accepts_any_configuration_set_or_typed(cls, data):
    first, value = (
        data.draw(configurations(cls).filter(lambda value: not has_spaces(value))) for _ in range(2)
    )
    form = ConfigurationForm(first)
    form.set(value)
    assert form.value == form.valid == value
    assert form.problems == {}
    typed = ConfigurationForm(first)
    type_in(typed, value)
    assert typed.problems == {}
    assert typed.value == value


def test_changed_options_differ_from_the_defaults():
    master = sw.SharedTrainingMaster(
        workers=2, threshold=sw.TargetSparsity(target=0.01), residual_clipping=sw.ResidualClipping()
    )
    assert changed_options(sw.SharedTrainingMaster, values_of(sw.SharedTrainingMaster())) == {}
    assert changed_options(sw.SharedTrainingMaster, values_of(master)) == {
        ("workers",): 2,
        ("threshold",): "target",
        ("threshold", "target"): 0.01,
        ("residual_clipping",): "on",
    }


def test_sections_are_filled_when_opened_and_count_changes():
    form = ConfigurationForm(sw.ParameterAveragingTrainingMaster())
    assert all(not group.box.children for group in form.groups.values())
    group = form.groups["Data and partitions"]
    assert group.button.description == "▸ Data and partitions"
    form.field("shuffle").control.value = False
    assert group.button.description == "▾ Data and partitions (1 changed)"


def test_conflict_of_two_options_is_solved_by_changing_either():
    form = ConfigurationForm(sw.SharedTrainingMaster(workers=2))
    told = []
    form.on_change(told.append)
    form.field("workers_per_node").control.value = "1"
    assert "exclude each other" in form.field("workers_per_node").problem
    assert form.valid is None
    assert form.value == sw.SharedTrainingMaster(workers=2)
    form.field("workers").control.value = ""
    assert form.problems == {}
    assert form.value == sw.SharedTrainingMaster(workers_per_node=1)
    assert told == [("workers_per_node",), ("workers",)]


def test_invalid_nested_object_is_identified_by_its_path():
    form = ConfigurationForm(sw.ParameterAveragingTrainingMaster())
    form.field("checkpoint").control.value = True
    assert form.problem is not None
    assert set(form.problems) == {("checkpoint", "url")}
    form.field("checkpoint", "url").control.value = "/data/runs/7"
    assert form.problem is None
    assert form.value.checkpoint == sw.Checkpointing("/data/runs/7", every_s=None)


def test_hidden_fields_keep_their_values():
    settings = sw.SparkSettings(workers=3, settings={"spark.a": "b"})
    form = ConfigurationForm(settings, names=["workers"])
    assert form.names == {"workers"}
    form.field("workers").control.value = "4"
    assert form.value == sw.SparkSettings(workers=4, settings={"spark.a": "b"})
