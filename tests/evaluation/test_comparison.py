import numpy as np

from sparkwright.evaluation import CustomEvaluation, Evaluation, compare


def test_a_comparison_has_a_row_for_each_evaluation_and_all_metrics():
    first = Evaluation(confusion=np.array([[3, 1], [2, 4]]))
    second = Evaluation(confusion=np.array([[4, 0], [2, 4]]))
    custom = CustomEvaluation(lambda *_: {"accuracy": 0.75, "cost": 1234567}, max)
    compared = compare({"first": first, "<second>": second, "own": custom.updated([1], [1])})
    assert compared.to_dict()["first"] == first.headline()
    assert compared.to_dict()["own"] == {"accuracy": 0.75, "cost": 1234567.0}
    assert compared.best("accuracy") == "<second>"
    assert compared.best("accuracy", smallest=True) == "first"
    assert compared.best("cost") == "own"
    lines = str(compared).splitlines()
    assert lines[0].split()[:2] == ["examples", "accuracy"]
    assert lines[1].split()[:3] == ["first", "10", "0.7000"]
    assert lines[3].split() == ["own", "1", "0.7500", "1,234,567"]
    assert "&lt;second&gt;" in compared._repr_html_()
