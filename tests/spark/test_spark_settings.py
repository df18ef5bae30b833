import pytest
from hypothesis import given, strategies as st

import sparkwright as sw
from sparkwright.errors import ConfigurationError
from sparkwright.spark._session import _gpu_settings

settings = st.builds(
    sw.SparkSettings,
    workers=st.integers(1, 64),
    cores_per_worker=st.integers(1, 8),
    memory_per_worker_mb=st.integers(512, 1 << 20),
    gpus_per_executor=st.integers(0, 8),
    master=st.none() | st.sampled_from(["yarn", "local[2]", "spark://m:7077"]),
    settings=st.dictionaries(st.text(min_size=1, max_size=9), st.integers() | st.booleans()),
)


@given(settings)
def test_settings_come_back_from_json_yaml_and_code(settings):
    assert sw.SparkSettings.from_json(settings.to_json()) == settings
    assert sw.SparkSettings.from_yaml(settings.to_yaml()) == settings
    given = {}

    class Stand:
        @staticmethod
        def start_spark(**arguments):
            given.update(arguments)

    exec(settings.to_code(), {"sw": Stand})
    assert sw.SparkSettings(**given) == settings


def test_a_wrong_setting_is_named():
    with pytest.raises(ConfigurationError, match="memory_per_worker_mb=100"):
        sw.SparkSettings(memory_per_worker_mb=100)


def test_gpus_need_a_script_that_finds_them():
    with pytest.raises(ConfigurationError, match="discoveryScript"):
        _gpu_settings(2, {})
    script = {"spark.executor.resource.gpu.discoveryScript": "/opt/find"}
    assert _gpu_settings(2, script)["spark.executor.resource.gpu.amount"] == "2"
    assert _gpu_settings(0, {}) == {}
