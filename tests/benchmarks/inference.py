"""Prediction and evaluation by two workers, against Keras' own in one process on the same cores."""

from tests.benchmarks._harness import compared, digits_arrays, in_turn, rates

import sparkwright as sw

REPEATS = 5
COUNT = 60_000
BATCH_SIZE = 64
# Spark sends a task its part of arrays as one message, which the driver's JVM copies twice: parts
# of 94 MB do not fit its default gigabyte.
PARTITIONS = 8


def inference():
    """Examples/s of LeNet; trainers and the Keras functions are warm, sides take turns."""
    images, labels = digits_arrays(COUNT)
    spark = sw.start_spark(workers=2)
    data = sw.data.from_arrays(spark, images, labels, partitions=PARTITIONS)
    network = sw.SparkNetwork(spark, sw.networks.lenet())
    model = network.model
    sides = {
        "model.predict": lambda: model.predict(images, batch_size=BATCH_SIZE, verbose=0),
        "predict": lambda: network.predict(data, batch_size=BATCH_SIZE).collect(),
        "model.evaluate": lambda: model.evaluate(images, labels, batch_size=BATCH_SIZE, verbose=0),
        "evaluate": lambda: network.evaluate(data, batch_size=BATCH_SIZE),
    }
    for side in sides.values():
        side()  # starts TensorFlow, compiles
    found = rates(COUNT, in_turn(REPEATS, sides))
    spark.stop()
    for ours in ("predict", "evaluate"):
        theirs = f"model.{ours}"
        yield compared(
            f"LeNet, batch {BATCH_SIZE}, {ours} by 2 workers, against {theirs}",
            *("examples/s", found[ours], found[theirs]),
            target=">= 1",
            runs={ours: found[ours], theirs: found[theirs]},
        )
