import socket
import zipfile
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st
from tests.cases import cases
from tests.support.hadoop import as_xml

from sparkwright.cluster.job_errors import memory_kill, translated
from sparkwright.errors import ConfigurationError, NetworkError, WorkerError
from sparkwright.spark import _yarn
from sparkwright.spark._java import default_settings
from sparkwright.spark._yarn import (
    jars_settings,
    manager_addresses,
    parse_hadoop_settings,
    tag_settings,
    write_jars,
    yarn_settings,
)
from sparkwright.spark.memory_parts import overhead_settings

TEXTS = st.text(st.characters(codec="utf-8", categories=["L", "N", "P"]), min_size=1)


@pytest.fixture
def conf(tmp_path, monkeypatch):
    """An empty folder, which HADOOP_CONF_DIR names."""
    folder = tmp_path / "conf"
    folder.mkdir()
    monkeypatch.setenv("HADOOP_CONF_DIR", str(folder))
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    # Another test's session may have started Java.
    monkeypatch.setattr("pyspark.SparkContext._jvm", None)
    return folder


@given(st.dictionaries(TEXTS, TEXTS))
def test_settings_are_read_as_they_were_written(settings):
    assert parse_hadoop_settings(as_xml(settings), name="x") == settings


def test_each_of_several_resource_managers_has_an_address():
    settings = {
        "yarn.resourcemanager.ha.enabled": "true",
        "yarn.resourcemanager.ha.rm-ids": "rm1, rm2",
        "yarn.resourcemanager.hostname.rm1": "one",
        "yarn.resourcemanager.address.rm2": "two:99",
    }
    assert manager_addresses(settings) == [("one", 8032), ("two", 99)]


def test_missing_configuration_folder_raises_with_the_variable_to_set(monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.delenv("YARN_CONF_DIR", raising=False)
    with pytest.raises(ConfigurationError, match=r"neither HADOOP_CONF_DIR .*os\.environ\["):
        yarn_settings({"spark.master": "yarn"})


@cases(
    "name, text, match",
    ("core-site.xml", as_xml({}), r"HADOOP_CONF_DIR='.*', with core-site\.xml"),
    ("yarn-site.xml", "<configuration>", r"Received: .*yarn-site\.xml: no element"),
    ids=["missing", "no XML"],
)
def test_folder_without_a_valid_file_of_yarn_is_named(conf, name, text, match):
    (conf / name).write_text(text)
    with pytest.raises(ConfigurationError, match=match):
        yarn_settings({"spark.master": "yarn"})


def test_unreachable_resource_manager_raises_immediately(conf):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
        (conf / "yarn-site.xml").write_text(as_xml({"yarn.resourcemanager.address": address}))
        with pytest.raises(NetworkError, match=rf"{address} \(.*refused\)"):
            yarn_settings({"spark.master": "yarn"})


def test_reachable_resource_manager_is_accepted_and_spark_settings_win(conf):
    (conf / "yarn-site.xml").write_text(as_xml({"yarn.resourcemanager.address": "127.0.0.1:1"}))
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        own = {"spark.hadoop.yarn.resourcemanager.address": address}
        assert yarn_settings({"spark.master": "yarn", **own}) == {}


def test_a_java_that_was_started_without_the_cluster_is_rejected(conf, monkeypatch):
    (conf / "yarn-site.xml").write_text(as_xml({"yarn.resourcemanager.address": "127.0.0.1:1"}))
    system = SimpleNamespace(getenv=lambda name: None)
    java = SimpleNamespace(java=SimpleNamespace(lang=SimpleNamespace(System=system)))
    monkeypatch.setattr("pyspark.SparkContext._jvm", java)
    with pytest.raises(
        ConfigurationError, match=r"conf', but the JVM has None\. Restart the kernel"
    ):
        yarn_settings({"spark.master": "yarn"})


def test_each_session_has_a_unique_tag_after_given_tags():
    one, other = (tag_settings({"spark.yarn.tags": "nightly"})["spark.yarn.tags"] for _ in "ab")
    assert one.startswith("nightly,sparkwright-")
    assert one != other


@cases("text", "0", "-1", "soon", "inf", "nan")
def test_invalid_yarn_timeout_raises_with_its_value(text):
    with pytest.raises(ConfigurationError, match=rf"yarnTimeout.*Received: '{text}'"):
        tag_settings({"spark.sparkwright.yarnTimeout": text})


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A Spark with two jars."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (tmp_path / "spark" / "jars" / name).write_bytes(name.encode() * 1000)
    monkeypatch.setattr(_yarn, "spark_home", lambda: tmp_path / "spark")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return tmp_path / "spark"


def test_archive_has_every_jar_compressed_for_streaming(home, tmp_path):
    jars = sorted((home / "jars").iterdir())
    write_jars(jars, str(tmp_path / "jars.zip"))
    with zipfile.ZipFile(tmp_path / "jars.zip") as archive:
        assert archive.namelist() == ["a.jar", "b.jar"]
        assert archive.read("b.jar") == jars[1].read_bytes()
        # YARN's machines unpack it as a stream, which they cannot with stored entries.
        assert {one.compress_type for one in archive.infolist()} == {zipfile.ZIP_DEFLATED}


@pytest.mark.usefixtures("home")
@cases(
    "chosen, system", ({"spark.yarn.jars": "local:/x/*"}, "hdfs://a:1"), ({}, "file:///"), ({}, "")
)
def test_jars_are_left_to_spark_where_they_are_settled_or_hdfs_is_missing(chosen, system):
    assert jars_settings(chosen, {"fs.defaultFS": system}) == {}


def test_jars_that_sparks_own_file_settles_are_left_to_it(home):
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(
        "# mine\nspark.yarn.archive hdfs:///a.zip\nspark.eventLog.enabled=true\n"
        "spark.a = -Dx=1 -Dy\nspark.b\n"
    )
    assert default_settings(home) == {
        "spark.yarn.archive": "hdfs:///a.zip",
        "spark.eventLog.enabled": "true",
        "spark.a": "-Dx=1 -Dy",
        "spark.b": "",
    }
    assert jars_settings({}, {"fs.defaultFS": "hdfs://a:1"}) == {}


@pytest.mark.usefixtures("home")
def test_a_file_system_that_rejects_the_archive_ends_in_a_warning_not_an_error(monkeypatch, caplog):
    def refuse(url):
        raise PermissionError(f"no entry to {url}")

    monkeypatch.setattr(_yarn, "exists", refuse)
    assert jars_settings({}, {"fs.defaultFS": "hdfs://a:1"}) == {}
    assert "no entry to hdfs://a:1/user/" in caplog.text
    assert "spark.yarn.archive" in caplog.text


@cases("master", "yarn", "k8s://https://api")
def test_containers_have_room_for_tensorflow_unless_configured(master):
    chosen = {"spark.master": master, "spark.executor.memory": "1024m"}
    one = int(overhead_settings(chosen)["spark.executor.memoryOverhead"].removesuffix("m"))
    assert one > 1024
    four = overhead_settings({**chosen, "spark.executor.cores": "4"})
    assert int(four["spark.executor.memoryOverhead"].removesuffix("m")) > 3 * one
    wide = overhead_settings({**chosen, "spark.executor.cores": "4", "spark.task.cpus": "4"})
    assert wide == {"spark.executor.memoryOverhead": f"{one}m"}
    for name in ("spark.executor.memoryOverhead", "spark.executor.memoryOverheadFactor"):
        assert overhead_settings({**chosen, name: "1"}) == {}
        assert overhead_settings(chosen, elsewhere={name}) == {}


PHYSICAL = (
    "Container killed by YARN for exceeding physical memory limits. 1.4 GB of 1.2 GB physical "
    "memory used. Consider boosting spark.executor.memoryOverhead."
)


@cases(
    "reason, words",
    (PHYSICAL, "executor 3 took 1.4 GB of 1.2 GB, and YARN killed it (spark.executor."),
    (PHYSICAL.replace("physical", "virtual"), "yarn.nodemanager.vmem-check-enabled"),
    ("exited with exit code 137(SIGKILL, OOMKilled)", "Raise spark.executor.memoryOverhead"),
    ("", None),
    ("Executor heartbeat timed out", None),
    ("Exit code is 1", None),
)
def test_an_executor_killed_for_memory_is_one_sentence_with_amounts_and_remedy(reason, words):
    told = memory_kill(reason, {"spark.executor.memory": "1g"}, who="executor 3")
    assert (told is None) == (words is None)
    assert "\n" not in (told or "")
    assert (words or "") in (told or "")


def test_a_failed_job_tells_memory_instead_of_javas_words():
    kind = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
    error = kind(f"Lost task 0.3 in stage 1 (TID 7) (node7 executor 3): Reason: {PHYSICAL}")
    found = translated(error)
    assert isinstance(found, WorkerError)
    assert found.host == "node7"
    assert "took 1.4 GB of 1.2 GB" in found.reason
    assert "because" in str(translated(kind("stopped"), because="because")).partition(":")[2]


def test_the_end_of_a_trainer_keeps_its_worker_host_and_words():
    kind = type("Py4JJavaError", (Exception,), {"__module__": "py4j.protocol"})
    reason = "the trainer process of worker 1 on node7 ended (signal 9, SIGKILL)."
    raised = WorkerError(worker=1, host="node7", reason=reason)
    trace = f"Traceback (most recent call last):\n  ...\nsparkwright.errors.WorkerError: {raised}"
    found = translated(
        kind(f"Lost task 0.3 (TID 7) (10.0.0.7 executor 3): {trace}\n\n\tat org.apache")
    )
    assert isinstance(found, WorkerError)
    assert (found.worker, found.host, found.reason) == (1, "node7", reason)
    assert str(found) == str(raised)
