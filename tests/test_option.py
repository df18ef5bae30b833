import pytest
from hypothesis import given, strategies as st

from sparkwright.errors import ConfigurationError
from sparkwright.options import Option

WHOLE = Option(name="batch_size", kind="int", maximum=10**12)


@given(st.integers(-(10**12), 10**12))
def test_commas_can_separate_thousands(number):
    assert WHOLE.parse(f"{number:,}") == number
    assert WHOLE.parse(str(number)) == number


@pytest.mark.parametrize("text", ["1,5", "1,50", "1,5000", "1000,000", ",5", "5,", "1,,000", "1.5"])
def test_other_commas_are_rejected_with_the_rule(text):
    with pytest.raises(ConfigurationError, match=r"`batch_size` must be an integer\. Received"):
        WHOLE.parse(text)


def test_several_integers_keep_their_commas():
    assert Option(name="kernel_size", kind="ints").parse("1,5") == (1, 5)


@pytest.mark.parametrize("text", ["1: 1, 3: 5", "{1: 1, 3: 5}", " 1:1,3:5 "])
def test_schedule_is_parsed_with_or_without_braces(text):
    option = Option(name="averaging_frequency", kind="schedule", minimum=1)
    assert option.parse(text) == {1: 1, 3: 5}
    assert option.text(option.parse(text)) == "1: 1, 3: 5"
    assert option.parse("1,024") == 1024
    for wrong in ("2: 5", "1: 1, 3", "1: 0", "1: 1: 1", "1: x", "1: 1,", ""):
        with pytest.raises(ConfigurationError, match=f"Received: averaging_frequency=.*{wrong}"):
            option.parse(wrong)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 10**400, True, "1"])
def test_values_outside_the_float_range_are_rejected(value):
    with pytest.raises(ConfigurationError, match="must be a finite number"):
        Option(name="share", kind="float").check(value)
