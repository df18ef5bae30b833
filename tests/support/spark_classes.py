"""Spark's classes as Java has parsed them once: with them, JVMs start with a third less work.

python -m tests.support.spark_classes   # writes FOLDER, unless it is there; half a minute
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyspark

DEFAULTS = Path(__file__).parents[1] / "spark_defaults"
# For SPARK_CONF_DIR: the defaults, and options of Java that name the archive beside them.
FOLDER = Path(sys.prefix) / f"spark-{pyspark.__version__}"

_SESSION = """
import sys
from pyspark.sql import SparkSession
# `start_spark` gives Spark another home, and so classes another path.
builder = SparkSession.builder.master("local-cluster[1,1,1024]")
builder = builder.config("spark.driver.extraJavaOptions", sys.argv[1])
spark = builder.config("spark.driver.extraClassPath", "").getOrCreate()
frame = spark.createDataFrame([(n, float(n)) for n in range(9)], "n long, x double")
frame.write.parquet(sys.argv[2])
frame = spark.read.parquet(sys.argv[2]).repartition(2)
frame.mapInArrow(lambda batches: batches, frame.schema).toPandas()
frame.rdd.mapPartitions(list).collect()
process = spark.sparkContext._gateway.proc
spark.stop()
process.stdin.close()
process.wait(120)
"""


def write():
    """Run a session that leaves its classes in FOLDER."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    new = FOLDER.with_name(f"{FOLDER.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir()
    archive = "classes.jsa"
    c1 = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    subprocess.run(
        [
            *(sys.executable, "-c", _SESSION),
            *(f'{c1} "-XX:ArchiveClassesAtExit={new / archive}"', new / "table"),
        ],
        # An archive may not depend on a folder with files.
        env=os.environ | {"SPARK_CONF_DIR": str(new / "none"), "PYSPARK_PYTHON": sys.executable},
        stdout=subprocess.DEVNULL,
        check=True,
        timeout=300,
    )
    shutil.rmtree(new / "table")
    jars = Path(pyspark.__file__).parent / "jars"
    # Java ignores an archive of another Java or of other jars, and is not to print that.
    options = f'"-XX:SharedArchiveFile={FOLDER / archive}" -Xlog:cds=off -Xlog:cds+dynamic=off'
    lines = (DEFAULTS / "spark-defaults.conf").read_text(encoding="utf-8").splitlines()
    lines = [f"{line} {options}" if "JavaOptions" in line else line for line in lines]
    # An archive is for class paths that start as its own: without Spark's folder of settings.
    (first,) = jars.glob("slf4j-api-*.jar")
    lines += [f"spark.{who}.extraClassPath {first}:{jars}/*" for who in ("driver", "executor")]
    (new / "spark-defaults.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.rename(FOLDER)


if __name__ == "__main__":
    if not FOLDER.exists():
        write()
