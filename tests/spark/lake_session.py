"""Trains from tables of a lake, with the jars named; prints what was seen.

Run by its path, in a process of its own: the jars are those of one session.
"""

import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.spark.helpers import dense

import sparkwright as sw


def main(format, jars, folder):
    catalogs = {
        "delta": {
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        },
        "iceberg": {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": folder,
        },
    }
    settings = {"spark.jars": jars, **catalogs[format]}
    spark = sw.start_spark(workers=2, settings=settings)
    x = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    rows = [(i, row.tolist(), i % 3) for i, row in enumerate(x)]
    frame = spark.createDataFrame(rows, "id int, features array<float>, label int").repartition(2)
    if format == "delta":
        path = f"{folder}/table"
        frame.write.format("delta").save(path)
        table = spark.read.format("delta").load(path)
    else:
        frame.writeTo("lake.examples").create()
        table = spark.table("lake.examples")
    data = sw.data.from_dataframe(table, features="features", labels="id").collect()
    same = np.array_equal(data.features["features"], x[data.labels["labels"]])
    master = sw.ParameterAveragingTrainingMaster(workers=2, batch_size_per_worker=8, seed=1)
    network = sw.SparkNetwork(spark, dense(), master)
    network.fit(table.select("features", "label"), display=False)
    # Predictions go back into a table.
    predicted = network.predict(table).select("id", "prediction")
    if format == "delta":
        predicted.write.format("delta").save(f"{folder}/predicted")
        found = spark.read.format("delta").load(f"{folder}/predicted")
    else:
        predicted.writeTo("lake.predicted").create()
        found = spark.table("lake.predicted")
    outputs = [row.prediction for row in found.orderBy("id").collect()]
    close = bool(np.allclose(outputs, network.model.predict(x, verbose=0), rtol=1e-5))
    trained = bool(np.isfinite(network.history.history["loss"]).all())
    spark.stop()
    print(json.dumps({"same": bool(same), "trained": trained, "predicted": close}))


if __name__ == "__main__":
    main(*sys.argv[1:])
