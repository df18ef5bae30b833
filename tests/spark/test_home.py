import os
import signal
import subprocess
import sys
from pathlib import Path

from sparkwright.spark._java import spark_home

_PROGRAM = """
import os, signal, sys
from sparkwright.spark._java import own_home
with own_home("local-cluster[1,1,1024]"):
    print(os.environ["SPARK_HOME"])
    print(os.path.exists(os.environ["SPARK_HOME"] + "/jars"))
print(os.environ.get("SPARK_HOME"))
if sys.argv[1] == "killed":
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_home_of_a_killed_process_is_removed_by_the_next(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path), "SPARK_HOME": str(spark_home())}
    for how, status in (("killed", -signal.SIGKILL), ("ended", 0)):
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM, how],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == status, done.stderr
        home, has_jars, after = done.stdout.splitlines()
        assert Path(home).parent == tmp_path
        assert (has_jars, after) == ("True", str(spark_home()))
        assert Path(home).exists() == (how == "killed")
    assert not [*tmp_path.iterdir()]


def test_executors_folders_are_in_that_home(spark):
    context = spark.sparkContext
    home = Path(context._jvm.System.getenv("SPARK_HOME"))
    assert [*home.glob(f"work/{context.applicationId}*/0/stdout")]
    assert not [*spark_home().glob(f"work/{context.applicationId}*")]
