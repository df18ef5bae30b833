from sparkwright.cluster.connect import _Outage


def test_an_outage_lasts_from_its_first_failure_to_the_next_success():
    outage = _Outage()
    assert [outage.lasts_s(at_s) for at_s in (100.0, 101.0, 104.0)] == [0.0, 1.0, 4.0]
    # Nothing failed meanwhile, so that calls succeeded or none was made.
    assert [outage.lasts_s(at_s) for at_s in (200.0, 201.0)] == [0.0, 1.0]
