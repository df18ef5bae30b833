import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.notebook, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
PAGES = ("spark-ml.md", "trackers.md", "dl4j-models.md", "sweeps.md")
GUIDE = (
    "../README.md",
    "quick-start.md",
    "data.md",
    "networks.md",
    "training-masters.md",
    "gradient-sharing.md",
    "running.md",
    "faults.md",
    "checkpoints.md",
    "parallel-wrapper.md",
    "network-and-ports.md",
)
# A store of MLflow is needed, which `tests/spark/test_trackers.py` has.
LEFT_OUT = "import mlflow"
# That blocks run is tested, not what they learn: fewer epochs and trials show it.
SHORTER = {
    r"epochs=([4-9]|\d\d)\b(?!, resume)": "epochs=2",  # a resumed run needs more than the first
    r"trials=\d+": "trials=2",
    r"epochs, \[1, 5\]": "epochs, [1, 2]",
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("pages", [PAGES, GUIDE], ids=["others", "guide"])
def test_code_blocks_of_pages_run(tmp_path, pages):
    (tmp_path / "tests").symlink_to(ROOT / "tests")
    (tmp_path / "flowers.csv").write_text(
        "length,color,species\n" + "5.1,red,rose\n4.9,blue,iris\n" * 100, encoding="utf-8"
    )
    script = ""
    for page in pages:
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        assert blocks, page
        script += f"print('--- {page}', flush=True)\n"
        script += "".join(block for block in blocks if LEFT_OUT not in block)
    for pattern, shorter in SHORTER.items():
        script = re.sub(pattern, shorter, script)
    (tmp_path / "pages.py").write_text(script, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "pages.py"],
        cwd=tmp_path,
        env={**os.environ, "SPARKWRIGHT_RUNS": "off"},
        capture_output=True,
        text=True,
        timeout=880,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
