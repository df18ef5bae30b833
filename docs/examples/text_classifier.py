"""Trains a classifier of sentences: text travels to the workers, the vocabulary is in the model.

python docs/examples/text_classifier.py [--sentences 2000] [--epochs 3] [--model URL]
"""

import argparse

import keras
import numpy as np

import sparkwright as sw

GOOD = ["lovely", "great", "splendid", "warm", "happy", "bright"]
BAD = ["dreadful", "poor", "broken", "cold", "sad", "dull"]
OTHER = [
    "the",
    "film",
    "was",
    "a",
    "story",
    "of",
    "people",
    "and",
    "their",
    "town,",
    "with",
    "music",
]


def sentences(count, seed=0):
    """Rows (review, label): each sentence has words of its kind among others."""
    random = np.random.default_rng(seed)
    rows = []
    for label in random.integers(0, 2, count).tolist():
        words = [*random.choice(OTHER, 6), *random.choice([BAD, GOOD][label], 2)]
        rows.append((" ".join(random.permutation(words)).capitalize() + ".", label))
    return rows


def build(vectorize):
    """A compiled network whose input is text; `vectorize` has its vocabulary already."""
    model = keras.Sequential(
        [
            keras.Input((1,), dtype="string", name="review"),
            vectorize,
            keras.layers.Embedding(vectorize.vocabulary_size(), 8),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2, activation="softmax", name="liked"),
        ]
    )
    model.compile(keras.optimizers.Adam(0.05), "sparse_categorical_crossentropy")
    return model


def run(spark, *, count=2000, epochs=3, model=None):
    """Adapt, train, evaluate, predict in SQL, save; returns the accuracy and the predictions."""
    frame = spark.createDataFrame(sentences(count), "review string, label int")
    train, test = frame.randomSplit([0.8, 0.2], seed=1)

    vectorize = keras.layers.TextVectorization(max_tokens=1000, output_sequence_length=10)
    sw.adapt(vectorize, train, column="review")  # one pass over the distributed texts

    def data_of(part):
        return sw.data.from_dataframe(part, features={"review": ["review"]}, labels="label")

    master = sw.ParameterAveragingTrainingMaster(batch_size_per_worker=32, workers=2, seed=1)
    network = sw.SparkNetwork(spark, build(vectorize), master)
    network.fit(data_of(train), epochs=epochs)
    accuracy = network.evaluate(data_of(test)).accuracy

    spark.udf.register("odds", network.as_udf())
    test.createOrReplaceTempView("reviews")
    predicted = spark.sql("SELECT review, odds(review)[1] AS liked FROM reviews LIMIT 5")
    if model:
        network.save(model)  # with the vocabulary
    return accuracy, predicted.collect()


def main():
    """Run with the options of the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--model", help="where to save the trained network")
    options = parser.parse_args()
    spark = sw.start_spark(workers=2)
    accuracy, predicted = run(
        spark, count=options.sentences, epochs=options.epochs, model=options.model
    )
    print(f"accuracy: {accuracy:.3f}")
    for row in predicted:
        print(f"{row.liked:.2f}  {row.review}")
    spark.stop()


if __name__ == "__main__":
    main()
