import numpy as np

from sparkwright.evaluation import CustomEvaluation, Evaluation, compare


def test_a_comparison_has_a_row_for_each_evaluation_and_all_metrics():
    first = Evaluation(confusion=np.array([[3, 1], [2, 4]]))
    second = Evaluation(confusion=np.array([[4, 0], [2, 4]]))
    custom = CustomEvaluation(lambda *_: {"accuracy": 0.75, "cost": 1234567}, max)
    compared = compare({"first": first, "second": second, "own": custom.updated([1], [1])})
    assert compared.index.tolist() == ["first", "second", "own"]
    assert compared.columns.tolist() == ["examples", *first.headline(), "cost"]
    assert compared["examples"].tolist() == [10, 10, 1]
    assert compared.loc["first"].dropna().to_dict() == {"examples": 10, **first.headline()}
    assert compared.loc["own"].dropna().to_dict() == {
        "examples": 1,
        "accuracy": 0.75,
        "cost": 1234567.0,
    }
    assert compared["accuracy"].idxmax() == "second"
    assert compared["cost"].idxmax() == "own"
