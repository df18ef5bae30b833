# Every target sets up what it needs first (.ci/setup); once that is done it costs a tenth of a
# second and no network. Paths are relative, so that the clone may lie in any folder: make cannot
# name a path with spaces.

RUN = . .venv/sparkwright.env &&
# Python's byte code is kept, whatever the environment says: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
CLUSTER_TESTS = tests/cluster tests/gpu tests/shipping tests/spark tests/yarn
STORE_TESTS = tests/dl4j tests/spark/test_hdfs.py tests/storage
CHAOS_TESTS = tests/chaos tests/spark/test_early_stopping.py
NOTEBOOK = notebooks/01_quickstart.ipynb
# Random faults in make chaos, from this seed on, and which tests of them.
RUNS = 100
FIRST = 0
CHAOS = chaos
# The folder of the pictures that the documents show, for make screenshots.
PICTURES = docs/images
# Versions of PySpark for make spark-versions; none: those that .ci/spark-versions names.
VERSIONS =
SHARING = notebooks/02_gradient_sharing.ipynb
# JupyterLab refuses to run as root unless told that this is meant.
LAB_OPTIONS = $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)

.PHONY: help setup demo sharing report lab hdfs test test-cluster connect browser stores notebooks binder tour-memory chaos
.PHONY: check bench clean dist docs gpu gpu-wheels screenshots spark-versions

help:
	@echo 'make demo    train LeNet on handwritten digits on Spark; the report is reports/quickstart.html'
	@echo 'make sharing train it by averaging and by sharing; reports/gradient_sharing.html compares them'
	@echo 'make report NOTEBOOK=notebooks/03_csv.ipynb   the same for any of the notebooks'
	@echo 'make lab     open the same notebook in JupyterLab'
	@echo 'make hdfs    start a small HDFS to try things with, until Ctrl-C'
	@echo 'make test    run all tests; ARGS="..." goes to pytest, as in make test ARGS="tests/data -x"'
	@echo 'make test-cluster  test clusters of several hosts, YARN among them, which make test leaves out'
	@echo 'make browser  test the widgets in JupyterLab and Chromium, which make test leaves out'
	@echo 'make screenshots  draw the pictures of docs/images, 1280 and 420 pixels wide, light and dark'
	@echo 'make connect  test over Spark Connect what make test tests with a session of its own'
	@echo 'make stores  test a real HDFS, S3 and others, which make test leaves out; about 5 minutes'
	@echo 'make notebooks   test the notebooks, which make test leaves out; about 8 minutes'
	@echo 'make spark-versions  test PySpark 3.5, 4.0 and the newest; VERSIONS=3.5.9 tests one of them'
	@echo 'make binder  build what Binder builds, and run the tour in it on one core'
	@echo 'make tour-memory  run the tour in JupyterLab on one core: is it within the memory of Binder?'
	@echo 'make chaos   strike 150 runs with faults, about an hour; RUNS=4 strikes fewer, FIRST=40 others'
	@echo 'make check   check format, lint, types and spelling'
	@echo 'make docs    build the documentation site, reports/docs/index.html'
	@echo 'make bench   measure, and write reports/benchmarks.json'
	@echo 'make gpu     check and measure what needs an NVIDIA GPU, in 8 minutes; the report is reports/gpu.html'
	@echo 'make gpu-wheels  fetch into build/gpu-wheels what a machine with a GPU and no network may lack'
	@echo 'make dist    build wheel and sdist into dist/, and test the wheel in a new environment'
	@echo 'make setup   only set up: .venv with the Python packages, and Java'
	@echo 'make clean   remove .venv, caches and build outputs; reports/ stays'

setup:
	@bash .ci/setup

demo: setup
	@$(RUN) .venv/bin/python -m sparkwright_widgets.report $(NOTEBOOK) --output reports/quickstart.html

sharing: setup
	@$(RUN) .venv/bin/python -m sparkwright_widgets.report $(SHARING) --output reports/gradient_sharing.html

report: setup
	@$(RUN) .venv/bin/python -m sparkwright_widgets.report "$(NOTEBOOK)" --output "reports/$(notdir $(basename $(NOTEBOOK))).html" $(ARGS)

lab: setup
	@$(RUN) .venv/bin/python -m jupyterlab $(LAB_OPTIONS) $(NOTEBOOK)

hdfs:
	@bash .ci/setup hdfs
	@$(RUN) exec .venv/bin/python -m tests.support.hdfs_sandbox $(ARGS)

test:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder $(ARGS)

test-cluster:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest $(CLUSTER_TESTS) -m cluster $(ARGS)

browser:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest tests/browser -m browser $(ARGS)

screenshots:
	@bash .ci/setup test
	@$(RUN) SPARKWRIGHT_PICTURES="$(PICTURES)" .venv/bin/python -m pytest tests/browser/test_screenshots.py -m browser -s $(ARGS)
	@echo "Pictures of the documents: $(PICTURES); all widths and themes: reports/screenshots/docs"

connect:
	@bash .ci/setup test
	@$(RUN) SPARKWRIGHT_TEST_CONNECT=1 .venv/bin/python -m pytest tests/spark -m connect $(ARGS)

stores:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest $(STORE_TESTS) -m stores $(ARGS)

notebooks:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest tests/notebooks tests/docs -m notebook $(ARGS)

spark-versions:
	@bash .ci/setup test
	@bash .ci/spark-versions $(VERSIONS) $(ARGS)

binder:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest tests -m binder $(ARGS)

tour-memory:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest tests/binder/test_tour_memory.py -m binder $(ARGS)

chaos:
	@bash .ci/setup test
	@$(RUN) SPARKWRIGHT_CHAOS_RUNS=$(RUNS) SPARKWRIGHT_CHAOS_FIRST=$(FIRST) .venv/bin/python -m pytest $(CHAOS_TESTS) -m "$(CHAOS)" $(ARGS)

check: setup
	@$(RUN) bash .ci/check

docs: setup
	@$(RUN) NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build
	@echo "The documentation site: reports/docs/index.html"

bench: setup
	@$(RUN) .venv/bin/python tests/benchmarks/run.py $(ARGS)

gpu:
	@bash .ci/setup gpu
	@$(RUN) .venv/bin/python -m tests.gpu $(ARGS)

gpu-wheels: setup
	@$(RUN) .venv/bin/python -m tests.gpu.wheels build/gpu-wheels

dist: setup
	@.ci/dist

clean:
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
