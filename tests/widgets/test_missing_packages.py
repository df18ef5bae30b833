import subprocess
import sys

from tests.cases import cases


@cases("missing", "ipywidgets", "anywidget")
def test_missing_package_raises_with_the_extra_to_install(missing):
    code = f"import sys; sys.modules[{missing!r}] = None; import sparkwright_widgets"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "Install them with `pip install 'sparkwright[notebook]'`." in done.stderr


def test_importing_the_widgets_loads_neither_engine_nor_plotting():
    code = "import sys, sparkwright_widgets; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"matplotlib", "tensorflow", "pyspark", "nbclient"}.isdisjoint(done.stdout.split())
