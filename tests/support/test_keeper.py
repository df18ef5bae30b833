import subprocess
import sys

import pytest
from tests.support.sandbox import Keeper


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs /proc")
def test_container_ends_with_its_cluster_after_leaving_the_process_group(tmp_path):
    folder, beside = tmp_path / "cluster", tmp_path / "cluster-2"
    for one in (folder / "node" / "container", beside):
        one.mkdir(parents=True)
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    places = (folder / "node" / "container", beside)
    inside, outside = (
        subprocess.Popen(command, cwd=place, start_new_session=True) for place in places
    )
    try:
        Keeper(folder).close()
        assert inside.wait(10) == -9
        assert outside.poll() is None
        assert not folder.exists()
    finally:
        for process in (inside, outside):
            process.kill()
            process.wait()
