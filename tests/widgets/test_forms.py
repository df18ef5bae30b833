import pytest

from sparkwright.options import Option
from sparkwright_widgets._ui import OptionForm

LEVEL = Option(name="level", kind="choice", choices=("memory", "disk"), optional=True)
COUNT = Option(name="count", kind="int", default=5, minimum=1, help="5 is <safe>.")
FLAG = Option(name="shuffle", kind="flag", default=True, group="More")


@pytest.fixture
def form(comms):
    return OptionForm([LEVEL, COUNT, FLAG])


def test_a_choice_of_nothing_is_shown_with_what_it_means(form):
    control = form.fields["level"].control
    assert control.label == "(automatic)"
    control.value = "disk"
    assert form.values["level"] == "disk"
    control.value = ""
    assert form.values["level"] is None


def test_choices_need_not_be_text(comms):
    form = OptionForm([Option(name="threads", kind="choice", choices=(1, 2, True), default=2)])
    form.fields["threads"].control.value = "1"
    assert form.values == {"threads": 1}


def test_a_mistake_is_shown_at_the_field_and_the_last_good_value_stays(form):
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


def test_setting_values_tells_nobody(form):
    told = []
    form.on_change(told.append)
    form.set({"count": 9, "shuffle": False, "level": "memory"})
    assert told == []
    assert form.values == {"count": 9, "shuffle": False, "level": "memory"}
    assert form.fields["count"].control.value == "9"


def test_a_complaint_stays_until_the_field_is_changed(form):
    form.complain("count", "must be smaller than the rows")
    assert form.problems == {"count": "must be smaller than the rows"}
    form.fields["count"].control.value = "2"
    assert form.problems == {}


def test_advice_is_escaped_and_groups_stand_in_folds(form):
    assert "5 is &lt;safe&gt;." in form.fields["count"].advice.value
    assert list(form.folds) == ["More"]
    assert not form.folds["More"].opened
