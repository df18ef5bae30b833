import numpy as np
import pytest

from sparkwright.data import DataSet, LocalData
from sparkwright.data._skipped import Skipped
from sparkwright.errors import DataError
from sparkwright.workers._batch_layout import BatchLayout
from sparkwright.workers.data_checks import check_data


def model_of(inputs=("left", "right"), loss="sparse_categorical_crossentropy"):
    import keras

    tensors = [keras.Input((2,), name=name) for name in inputs]
    joined = keras.layers.Concatenate()(tensors) if len(tensors) > 1 else tensors[0]
    model = keras.Model(tensors, keras.layers.Dense(3, name="kind")(joined))
    model.compile("sgd", loss)
    return model


def layout(model, features, labels=None, *, training=True):
    return BatchLayout(model, DataSet(features, labels).columns(), training=training)


PAIR = np.zeros((4, 2), np.float32)
KINDS = np.array([0, 1, 2, 0])


def test_columns_are_matched_by_name_or_by_order_if_all_names_differ():
    model = model_of()
    by_name = layout(model, {"right": PAIR, "left": PAIR}, KINDS)
    assert by_name.order[:2] == ["features/left", "features/right"]
    in_order = layout(model, {"b": PAIR, "a": PAIR}, KINDS)
    assert in_order.order[:2] == ["features/b", "features/a"]
    with pytest.raises(DataError, match=r"\['left', 'right'\]. Received: \['lfet', 'left'\]"):
        layout(model_of(), {"lfet": PAIR, "left": PAIR}, KINDS)


def test_training_requires_labels_unless_there_is_no_loss():
    with pytest.raises(DataError, match="labels are needed"):
        layout(model_of(["all"]), PAIR)
    assert layout(model_of(["all"]), PAIR, training=False).order == ["features/features"]
    assert layout(model_of(["all"], loss=None), PAIR).order == ["features/features"]


@pytest.mark.parametrize("spelt", ["name", "object", "function", "dict", "list"])
def test_labels_must_match_the_loss(spelt):
    import keras

    losses = keras.losses
    sparse, dense = {
        "name": ("sparse_categorical_crossentropy", "categorical_crossentropy"),
        "object": (losses.SparseCategoricalCrossentropy(), losses.CategoricalCrossentropy()),
        "function": (losses.sparse_categorical_crossentropy, losses.categorical_crossentropy),
        "dict": ({"kind": "sparse_categorical_crossentropy"}, {"kind": "categorical_crossentropy"}),
        "list": (["sparse_categorical_crossentropy"], ["categorical_crossentropy"]),
    }[spelt]
    one_hot = np.eye(3, dtype=np.float32)[KINDS]
    layout(model_of(["all"], sparse), PAIR, KINDS)
    layout(model_of(["all"], dense), PAIR, one_hot)
    with pytest.raises(DataError, match=r"must be class numbers .*`one_hot=False`"):
        layout(model_of(["all"], sparse), PAIR, one_hot)
    with pytest.raises(DataError, match=r"must be one-hot .*`one_hot=True`"):
        layout(model_of(["all"], dense), PAIR, KINDS)


def test_class_beyond_the_output_size_is_rejected():
    with pytest.raises(DataError, match=r"below 3, the width .* Received: labels from 1 to 3,"):
        layout(model_of(["all"]), PAIR, KINDS + 1)
    # A single output is not about classes.
    assert layout(model_of(["all"], "mse"), PAIR, np.full((4, 3), 7.0))


def test_each_class_name_of_in_memory_data_needs_a_unit():
    data = LocalData(
        data=DataSet(PAIR, KINDS), skipped=Skipped(), class_names={"labels": list("abcd")}
    )
    with pytest.raises(DataError, match=r"the data's 4 classes\. Received: 3 units"):
        check_data(model_of(["left"]), data)


def test_labels_of_a_custom_loss_can_have_any_shape():
    """Whatever the name that it inherits: here the labels of one output are numbers."""
    import keras

    class Own(keras.losses.MeanSquaredError):
        pass

    numbers = np.zeros(4, np.float32)
    assert layout(model_of(["all"], Own()), PAIR, numbers)
    with pytest.raises(DataError, match=r"shape of the network's output, \(3\) an example, for"):
        layout(model_of(["all"], keras.losses.MeanSquaredError()), PAIR, numbers)


def test_class_ignored_by_the_loss_is_accepted():
    import keras

    given = KINDS - 1
    with pytest.raises(DataError, match=r"from 0 to below 3.* Received: labels from -1 to 1,"):
        layout(model_of(["all"]), PAIR, given)
    loss = keras.losses.SparseCategoricalCrossentropy(ignore_class=-1)
    assert layout(model_of(["all"], loss), PAIR, given)


def test_rounded_integers_are_rejected():
    import keras

    model = keras.Sequential([keras.Input((1,), dtype="int64"), keras.layers.Embedding(3, 2)])
    numbers = np.array([[3], [16_777_217]])
    for exact in (numbers, numbers.astype(np.float64), np.float32([[3], [16_777_215]])):
        layout(model, exact, training=False)
    with pytest.raises(DataError, match=r"int64. Received: float32.* from 16,777,216 on"):
        layout(model, numbers.astype(np.float32), training=False)


@pytest.mark.parametrize("loss", ["binary_crossentropy", "categorical_crossentropy"])
def test_labels_of_crossentropies_are_from_0_to_1(loss):
    labels = np.array([[-1.0, 1.0, 0.0]] * 4)
    with pytest.raises(DataError, match=r"from 0 to 1 for the loss .*Received: -1\.0 to 1\.0"):
        layout(model_of(["all"], loss), PAIR, labels)
    assert layout(model_of(["all"], "mse"), PAIR, labels)
