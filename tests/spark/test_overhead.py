from hypothesis import given, strategies as st
from tests.cases import cases

from sparkwright.spark.memory_parts import mib_in, overhead_in_container

EXECUTOR, POD = "spark.executor.", "spark.kubernetes."


FACTOR = {EXECUTOR + "memoryOverheadFactor": "0.5"}
POD_FACTOR = {POD + "memoryOverheadFactor": "0.5"}
PYTHON = {EXECUTOR + "pyspark.memory": "2g"}


@cases(
    "master, settings, expected",
    ("spark://a:7077", {}, None),
    ("local-cluster[2,1,1024]", {}, None),
    ("yarn", {}, 819),
    ("k8s://https://a:443", {}, 819),
    ("yarn", {**FACTOR, EXECUTOR + "memoryOverhead": "2g"}, 2048),
    ("yarn", FACTOR, 4096),
    ("yarn", {EXECUTOR + "minMemoryOverhead": "1g"}, 1024),
    ("yarn", POD_FACTOR, 819),
    ("k8s://a", POD_FACTOR, 4096),
    ("k8s://a", {**POD_FACTOR, EXECUTOR + "memoryOverheadFactor": "0.25"}, 2048),
    ("yarn", PYTHON, 819),
    ("yarn", {**PYTHON, "spark.yarn.isPython": "true"}, 819 + 2048),
    ("k8s://a", {**PYTHON, POD + "resource.type": "python"}, 819 + 2048),
)
def test_spark_adds_the_configured_overhead_to_the_heap(master, settings, expected):
    assert overhead_in_container(master, settings, heap_mib=8192) == expected


def test_small_heap_has_384_mib_of_overhead():
    assert overhead_in_container("yarn", {}, heap_mib=1024) == 384


@given(st.integers(0, 1 << 20), st.sampled_from("kmgtp"), st.sampled_from(["", "b", "i", "ib"]))
def test_sizes_are_parsed_as_written_by_spark(number, unit, rest):
    mib = number * 1024.0 ** "kmgtp".index(unit) / 1024
    assert mib_in(f"{number}{unit}{rest}") == mib
    assert mib_in(f" {number} {unit.upper()}{rest} ") == mib
    assert mib_in(f"{number << 20}b") == mib_in(str(number)) == number


@cases("text", "", "much", "-1g", "1bb", "1x", "g")
def test_invalid_size_is_none(text):
    assert mib_in(text) is None
