import json
from dataclasses import asdict

from hypothesis import given, strategies as st

from sparkwright.doctor import Check, Diagnosis
from sparkwright.doctor._findings import Findings, Note, Place, grouped

OK = Check(name="Python", where="driver", status="ok", found="3.11.9")
WARNING = Check(
    name="Clock", where="executor 1 (b)", status="warning", found="2.0 s ahead", remedy="Set <ntp>."
)
PROBLEM = Check(
    name="Driver reached", where="executor 0 (a)", status="problem", found="no", remedy="Open it."
)


def test_problems_come_first_and_json_keeps_the_order_of_checks():
    lines = repr(Diagnosis((OK, WARNING, PROBLEM))).splitlines()
    assert lines[0] == "sparkwright doctor: 1 problem, 1 warning, 1 ok"
    assert lines[2] == "PROBLEM      Driver reached  executor 0 (a): no"
    assert lines[3].strip() == "-> Open it."
    assert lines[4].startswith("warning      Clock           executor 1 (b): 2.0 s ahead")
    assert lines[-1] == "OK           Python          driver: 3.11.9"
    found = json.loads(Diagnosis((OK, PROBLEM)).to_json())
    assert found["ok"] is False
    assert [check["name"] for check in found["checks"]] == ["Python", "Driver reached"]
    assert found["checks"][0] == asdict(OK)


def test_html_is_escaped_and_lines_have_at_most_100_characters():
    html = Diagnosis((WARNING,))._repr_html_()
    assert "Set &lt;ntp&gt;." in html
    assert "<ntp>" not in html
    long = Check(
        name="Memory", where="driver", status="problem", found="x " * 200, remedy="y " * 99
    )
    assert max(map(len, repr(Diagnosis((long,))).splitlines())) <= 100


@given(st.lists(st.sampled_from(["1", "2", "3"]), max_size=12))
def test_executors_with_equal_results_share_a_row(versions):
    driver = Place(label="driver")
    executors = tuple(Place(label=f"executor {n} (h)") for n in range(len(versions)))
    findings = Findings(driver=driver, executors=executors)
    notes = [(p, Note("ok", v)) for p, v in zip(executors, versions, strict=True)]
    checks = list(grouped("Python", notes, findings))
    assert sorted(check.found for check in checks) == sorted(set(versions))
    for check in checks:
        count = versions.count(check.found)
        if count == len(versions) > 1:
            assert check.where == f"all {count} executors"
        else:
            assert check.where.count("executor") == min(count, 4)
            assert (f"and {count - 4} more" in check.where) == (count > 4)
