# Every target first sets up what it needs (.ci/setup); repeated, this takes 0.1 s and no network.
# Paths are relative, because make does not support spaces in the path of the clone.

RUN = . .venv/sparkwright.env &&
# Keep Python's byte code: tests start hundreds of processes.
unexport PYTHONDONTWRITEBYTECODE
CLUSTER_TESTS = tests/cluster tests/gpu tests/shipping tests/spark tests/yarn
STORE_TESTS = tests/dl4j tests/spark/test_hdfs.py tests/storage
ALL = not notebook and not stores and not browser and not binder and not chaos and not cluster
# STORES=stores also generates new networks with Deeplearning4j, which Maven downloads.
STORES = stores and not slow
CHAOS_TESTS = tests/chaos tests/spark/test_early_stopping.py
NOTEBOOK = notebooks/01_quickstart.ipynb
# For make chaos: number of random faults, first seed, and the expression that selects tests.
RUNS = 100
FIRST = 0
CHAOS = chaos
# The pictures of the documentation, for make screenshots.
PICTURES = docs/images
# Versions of PySpark for make spark-versions; empty: those in .ci/spark-versions.
VERSIONS =
SHARING = notebooks/02_gradient_sharing.ipynb
# JupyterLab refuses to run as root without this option.
LAB_OPTIONS = $(shell [ "$$(id -u)" != 0 ] || echo --allow-root)

.PHONY: help setup dev demo sharing report lab hdfs test test-cluster connect browser stores notebooks binder tour-memory chaos test-all
.PHONY: check bench clean dist docs gpu gpu-wheels screenshots spark-versions

help:
	@echo 'make demo    train LeNet on digits with Spark; writes reports/quickstart.html'
	@echo 'make sharing compare averaging and sharing; writes reports/gradient_sharing.html'
	@echo 'make report NOTEBOOK=notebooks/03_csv.ipynb   run another notebook and write its report'
	@echo 'make lab     open the notebook of make demo in JupyterLab'
	@echo 'make hdfs    start a small HDFS; Ctrl-C stops it'
	@echo 'make test    run the tests, except those below; ARGS="tests/data -x" is passed to pytest'
	@echo 'make test-all  also those tests that repeat on Spark or TensorFlow what others show; 20 minutes'
	@echo 'make test-cluster  test clusters: standalone, YARN, several hosts; 10 minutes'
	@echo 'make browser  test the widgets in JupyterLab and Chromium; 7 minutes'
	@echo 'make screenshots  draw the pictures of docs/images, 1280 and 420 pixels wide, light and dark'
	@echo 'make connect  repeat the Spark tests over Spark Connect'
	@echo 'make stores  test a real HDFS, S3 and other stores; 4 minutes'
	@echo 'make notebooks   test the notebooks and examples; 8 minutes'
	@echo 'make spark-versions  test PySpark 3.5, 4.0 and the newest; VERSIONS=3.5.9 tests one version'
	@echo 'make binder  build the Binder image, and run the tour in it on one core'
	@echo 'make tour-memory  measure the memory of the tour in JupyterLab on one core, limited on Binder'
	@echo 'make chaos   test 150 runs with faults, about an hour; RUNS=4 tests fewer, FIRST=40 others'
	@echo 'make check   check format, lint, types, spelling and style'
	@echo 'make docs    build the documentation site, reports/docs/index.html'
	@echo 'make bench   run the benchmarks; writes reports/benchmarks.json'
	@echo 'make gpu     test and measure an NVIDIA GPU, 8 minutes; writes reports/gpu.json'
	@echo 'make gpu-wheels  download the packages for make gpu without a network into build/gpu-wheels'
	@echo 'make dist    build wheel and sdist into dist/, and test the wheel in a new environment'
	@echo 'make setup   install Java, and the Python packages into .venv'
	@echo 'make clean   remove .venv, caches and build outputs, except reports/'

setup:
	@bash .ci/setup

dev:
	@bash .ci/setup dev

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
	@$(RUN) .venv/bin/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 $(ARGS)

test-all:
	@bash .ci/setup test
	@$(RUN) .venv/bin/python -m pytest -n 2 --dist loadgroup --no-loadscope-reorder --max-worker-restart 0 -m "$(ALL)" $(ARGS)
	@$(if $(ARGS),:,.venv/bin/python -m tests.ratchet work)

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
	@$(RUN) .venv/bin/python -m pytest $(STORE_TESTS) -m "$(STORES)" $(ARGS)

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

check: dev
	@$(RUN) bash .ci/check

docs: dev
	@$(RUN) NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build
	@echo "The documentation site: reports/docs/index.html"

bench: dev
	@$(RUN) .venv/bin/python tests/benchmarks/run.py $(ARGS)

gpu:
	@bash .ci/setup gpu
	@$(RUN) .venv/bin/python -m tests.gpu $(ARGS)

gpu-wheels: dev
	@$(RUN) .venv/bin/python -m tests.gpu.wheels build/gpu-wheels

dist: dev
	@.ci/dist

clean:
	@rm -rf .venv .pytest_cache .ruff_cache .hypothesis build dist spark-warehouse metastore_db derby.log
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
