import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.cases import cases
from tests.scripts import json_printed_by
from tests.storage.stores import started_or_skipped
from tests.support.kerberos import Kerberos

from sparkwright.errors import ConfigurationError

pytestmark = pytest.mark.stores

# Writes and reads; then again by a new connection, when a file says so.
ACT = """
import json, sys, time
from pathlib import Path
from sparkwright.storage import _hdfs
from sparkwright.storage.files import read_bytes, write_bytes
url, pause_s = sys.argv[1], float(sys.argv[2])
found = []
try:
    for number in range(2 if pause_s else 1):
        time.sleep(number * pause_s)
        _hdfs._system.cache_clear()
        write_bytes(f"{url}/{number}", b"content")
        found.append([read_bytes(f"{url}/{number}").decode(), _hdfs.hdfs_system_of(url)[0].info(
            f"/folder/{number}")["owner"]])
except OSError as error:
    found = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def kerberos():
    try:
        server = Kerberos("alice", "brief", "changed", short_lived={"brief": 6}).start()
    except ConfigurationError as error:
        pytest.skip(str(error))
    server.change_key("changed")
    yield server
    server.close()


@pytest.fixture(scope="module")
def secured(kerberos):
    # Tokens that nobody renews end after 40 seconds, in which a job ends, instead of a day.
    interval = {"dfs.namenode.delegation.token.renew-interval": "40000"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in kerberos.environment.items():
            patch.setenv(name, value)
        hdfs = started_or_skipped(
            datanodes=1, replication=1, settings={**kerberos.hadoop_settings, **interval}
        )
        tickets = hdfs.folder / "superuser"
        kerberos.log_in("nn/localhost", tickets)
        patch.setenv("KRB5CCNAME", f"FILE:{tickets}")
        hdfs.command("dfs", "-mkdir", "-p", "/folder", "/spark")
        hdfs.command("dfs", "-chmod", "777", "/folder", "/spark")
    yield hdfs
    hdfs.close()


@pytest.fixture
def environment(kerberos, secured, tmp_path):
    """That of a new process whose cache of tickets is empty."""
    ours = {"HADOOP_CONF_DIR": str(secured.configuration_folder)}
    return os.environ | kerberos.environment | ours | {"KRB5CCNAME": f"FILE:{tmp_path}/tickets"}


def acted(secured, environment, *, pause_s=0):
    arguments = "-c", ACT, f"{secured.url}/folder", str(pause_s)
    return json_printed_by(*arguments, environment=environment, timeout_s=90)


def test_ticket_determines_the_user(kerberos, secured, environment, tmp_path):
    kerberos.log_in("alice", tmp_path / "tickets")
    assert acted(secured, environment) == [["content", "alice"]]


def test_keytab_renews_expired_tickets(kerberos, secured, environment):
    environment["KRB5_CLIENT_KTNAME"] = str(kerberos.keytab("brief"))
    assert acted(secured, environment, pause_s=7) == [["content", "brief"]] * 2


@cases(
    "case, words",
    ("none", "No Kerberos credentials available"),
    ("expired", "Ticket expired"),
    ("wrong key", "Decrypt integrity check failed"),
)
def test_missing_expired_or_wrong_ticket_raises_one_sentence(
    kerberos, secured, environment, tmp_path, case, words
):
    pause_s = 0.0
    if case == "expired":
        kerberos.log_in("brief", tmp_path / "tickets")
        pause_s = 7
    if case == "wrong key":
        environment["KRB5_CLIENT_KTNAME"] = str(kerberos.keytab("changed"))
    found = acted(secured, environment, pause_s=pause_s)
    assert re.fullmatch(
        rf"PermissionError: {secured.url}/folder/\d could not be \w+: {secured.url} "
        rf"requires a valid Kerberos ticket\. Received: .*({words}).*\. Run kinit, or set .*",
        found,
    ), found


@pytest.fixture(scope="module", autouse=True)
def begun(kerberos, secured, tmp_path_factory):
    """What one session comes to, which is started with a keytab; executors have none."""
    folder = tmp_path_factory.mktemp("session")
    settings = {
        "HADOOP_CONF_DIR": str(secured.configuration_folder),
        "KRB5CCNAME": f"FILE:{folder}/tickets",
    }
    environment = os.environ | kerberos.environment | settings
    script = Path(__file__).with_name("kerberos_session.py")
    arguments = script, secured.url, kerberos.keytab("alice"), folder
    with ThreadPoolExecutor(1) as pool:
        yield pool.submit(json_printed_by, *arguments, environment=environment)


@pytest.fixture
def session(begun):
    return begun.result()


def test_executors_export_and_read_with_the_tokens_of_their_job(session):
    assert session["examples"] == 120
    assert session["owners"] == ["alice"]
    assert session["loaded_equals_saved"] is True


def test_executors_without_tokens_or_with_expired_ones_raise_one_sentence(session):
    assert "requires a valid Kerberos ticket. Received: No Kerberos credentials" in session["none"]
    assert session["expired"].startswith("PermissionError: ")
    assert "expired" in session["expired"]
    assert "each Spark job receives new delegation tokens" in session["expired"]


def test_later_job_carries_new_tokens(session):
    assert session["later"] == "content"


def test_spark_readers_and_host_names_are_given_tokens_which_no_log_has(session):
    assert session["rows"] == 3
    assert session["by_name"] == "content"
    assert session["logged"] == {"the setting": True, "a token": False}


def test_session_with_a_wrong_keytab_raises_before_java_starts(kerberos, secured, environment):
    for keytab, words in (
        ("/nowhere", "`spark.kerberos.keytab` must be a readable file"),
        (str(kerberos.keytab("changed")), "Received: Decrypt integrity check failed. Run kinit"),
    ):
        settings = {"spark.kerberos.keytab": keytab, "spark.kerberos.principal": "changed"}
        code = f"import sparkwright as sw; sw.start_spark(settings={settings})"
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, timeout=90, env=environment)
        assert words in done.stderr.strip().splitlines()[-1]
