# The two commands: `make demo` and `make test`. Each readies the machine first and skips what is done.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Every target drives a tool of its own; running two at a time would only mix their output.
.NOTPARALLEL:
.PHONY: help demo demo-hdfs build test test-long lint analyse sanitize sanitize-address sanitize-thread fuzz corpus chaos format docs prose dist test-dist check-reproducible test-matrix test-backends clean

export CMAKE_CXX_COMPILER_LAUNCHER := ccache
JOBS ?= $(shell nproc)
# A wheel of tfos for `make demo`, such as one of `make dist`; empty: it builds one.
WHEEL ?=
# Directory with MNIST as idx .gz files for `make demo`; empty: scikit-learn's digits.
MNIST ?=
# Further arguments of pytest for `make test` and `make test-long`, such as -k NAME.
PYTEST_ARGS ?=
# Where `make test-long` looks for tests; with options, too.
LONG_TESTS ?= tests/python
# Tests wait for other processes for a part of their time, so one more of them than processors keeps
# these busy. Each has a Spark of its own, which takes 4 GiB. A process that dies at a test would die
# at it again.
PYTEST = .venv/bin/python -m pytest --numprocesses $$(( $(JOBS) < 4 ? $(JOBS) + 1 : 4 )) --max-worker-restart 0 --dist loadfile --no-loadscope-reorder
# What tools/checks/report_tests.py reads.
RESULTS = build/test-results
# Those of an earlier run would stand for tests that did not run in this one.
CTEST = mkdir -p $(RESULTS) && rm -f $(RESULTS)/cpp.xml $(RESULTS)/python.xml && ctest --no-tests=error --output-junit "$(CURDIR)"/$(RESULTS)
# Seconds that each fuzz target runs.
FUZZ_SECONDS ?= 20
# Seconds that work of all kinds runs while things fail, and the seed of its first case.
CHAOS_SECONDS ?= 300
CHAOS_SEED ?= 1
# What of the tests `make sanitize...` runs; empty: all (tools/checks/sanitizer_parts.py has the names).
PART ?=
# What `make test-matrix` tries of tools/matrix/combinations.py; empty: all. SHORT=1: a few cases.
VERSIONS ?=
SHORT ?=
# Commands of further Pythons on which `make test-dist` runs the wheels, such as python3.12.
PYTHONS ?=
export JOBS

help: ## Show this help.
	@echo "make demo [MNIST=DIR]   Train and infer on a two-node cluster of this machine (digits, or MNIST's .gz files in DIR)."
	@echo "make demo WHEEL=FILE    The same with an existing wheel: nothing is compiled, and .venv-demo gets what it needs."
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-19s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

define CHECK_MNIST
	@if [ -n "$(MNIST)" ] && ! ls "$(MNIST)"/*-images-idx3-ubyte.gz >/dev/null 2>&1; then \
	  echo "MNIST=$(MNIST): there is no *-images-idx3-ubyte.gz; name the directory with MNIST's .gz files" >&2; exit 2; fi
endef

DEMO = tools/spark_cluster.py -- $(1)/bin/python examples/mnist_spark.py --master {master} --mnist "$(MNIST)"

# What to do after the demo.
NEXT = @echo "The line 'Exported the model to' above names the model's folder. Use the environment:  . $(1)/bin/activate"; \
	  echo "Next: write your own program, as docs/tutorial/laptop.md shows"

ifeq ($(WHEEL),)
demo:
	$(CHECK_MNIST)
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Training and inference on a standalone Spark cluster' '.venv/bin/python $(call DEMO,.venv)'
	$(call NEXT,.venv)
else
demo:
	@if [ ! -f "$(WHEEL)" ]; then \
	  echo "WHEEL=$(WHEEL): there is no such file; \`make dist\` makes wheels in dist/" >&2; exit 2; fi
	$(CHECK_MNIST)
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run' \
	  'Making the Python environment .venv-demo' 'tools/make_venv.sh .venv-demo component' \
	  'Installing the wheel' '.venv-demo/bin/python -m pip --disable-pip-version-check install --quiet --force-reinstall --no-deps "$(WHEEL)"' \
	  'Training and inference on a standalone Spark cluster' '.venv-demo/bin/python $(call DEMO,.venv-demo)'
	$(call NEXT,.venv-demo)
endif

demo-hdfs: ## As demo, on a real HDFS: data, training in both modes, models and predictions are there.
	$(CHECK_MNIST)
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build hdfs' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Data, training and inference on HDFS and a standalone Spark cluster' \
	  '.venv/bin/python tools/hadoop_cluster.py -- .venv/bin/python tools/spark_cluster.py -- .venv/bin/python examples/mnist_hdfs.py --master {master} --directory {hdfs}/user/demo/mnist --mnist "$(MNIST)"'

build: ## Build the C++ part with its tests (preset dev) and install the wheel into .venv.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build test' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the wheel and the C++ tests, and installing the wheel (ccache)' 'tools/install_wheel.sh --tests'
	@echo "The commands tfos and python are in .venv. Put them on your PATH:  . .venv/bin/activate"

# What both commands of tests need to be there.
define TEST_STEPS
	  'Installing missing Debian packages' 'tools/install_packages.sh run build test hdfs' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the wheel and the C++ tests, and installing the wheel (ccache)' 'tools/install_wheel.sh --tests' \
	  "Fetching Hadoop's jars for tests" '.venv/bin/python tools/yarn_cluster.py' \
	  'Fetching the connector of s3a:// for tests' '.venv/bin/python tools/s3_server.py' \
	  'Fetching Prometheus for tests' 'tools/fetch_prometheus.sh' \
	  "Archiving Spark's classes" '.venv/bin/python tools/archive_spark_classes.py build/spark-classes.jsa'
endef

# ctest ends with 8 when tests failed, and pytest with 1. The step that reports both fails then, after it
# has named them.
test: ## Build and run the tests: C++ (ctest), Python on real Spark clusters (pytest) without the long ones.
	@tools/steps.sh $(TEST_STEPS) \
	  'Running the C++ tests' '$(CTEST)/cpp.xml --preset dev -j $$((2 * $(JOBS))) || [[ $$? == 8 ]]' \
	  'Checking what the binaries show and need' '.venv/bin/python tools/checks/check_symbols.py .venv/lib/python*/site-packages/tfos/_*.so .venv/lib/python*/site-packages/tfos/bin/tfos build/dev/src/jvm/libtfos_jvm.so' \
	  'Running the Python tests' '$(PYTEST) --junitxml $(RESULTS)/python.xml -m "not long" tests/python $(PYTEST_ARGS) || [[ $$? == 1 ]]' \
	  'Reporting' '.venv/bin/python tools/checks/report_tests.py $(RESULTS)/cpp.xml $(RESULTS)/python.xml'

test-long: ## Run the long Python tests: whole examples and walks through pages, deaths of processes and hosts.
	@tools/steps.sh $(TEST_STEPS) \
	  'Running the long Python tests' '$(PYTEST) --junitxml $(RESULTS)/python_long.xml -m long $(LONG_TESTS) $(PYTEST_ARGS) || [[ $$? == 1 ]]' \
	  'Reporting' '.venv/bin/python tools/checks/report_tests.py $(RESULTS)/python_long.xml'

test-matrix: ## Try all versions that tfos is made for; VERSIONS=spark-3.5.7,java-21: these. Writes docs/versions.md.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Trying other versions' '.venv/bin/python tools/matrix/run_matrix.py $(if $(SHORT),--short) $(if $(VERSIONS),--only $(VERSIONS))'

test-backends: ## Train on JAX and PyTorch with nodes that have no TensorFlow; downloads 3 GB once.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Trying JAX and PyTorch' 'tools/test_backends.sh'

CHECK_WITH_CLANG = mkdir -p build && cmake --preset clang >build/clang.log && python3 tools/checks/check_with_clang.py build/clang
# Forty C++ sources take less than two minutes on two cores. Java's warnings are errors of the build.
NEWEST_SOURCES = 40
lint: ## Check format, Python's types and style, the layers, the English, and the 40 newest C++ sources as analyse does.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build test analyse' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Checking the format of the C++ sources' "git ls-files '*.cc' '*.h' | xargs clang-format-16 --dry-run -Werror" \
	  'Checking the Python sources (ruff, mypy)' 'tools/checks/lint.sh' \
	  'Checking the layers' '.venv/bin/python tools/checks/check_layers.py' \
	  'Checking the English' '.venv/bin/python tools/checks/prose.py' \
	  'Checking with Clang the C++ sources that were changed last' '$(CHECK_WITH_CLANG) --newest $(NEWEST_SOURCES)'

analyse: ## Check all C++ sources with Clang's warnings and its analysis of mutexes, without building them.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build test analyse' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  "Checking the C++ sources with Clang" '$(CHECK_WITH_CLANG)'

# Both are Clang's builds of all there is, benchmarks and fuzz targets included, with its warnings as
# errors.
sanitize: ## Run the C++ tests and those of the extension under sanitizers; PART=NAME: a part of them.
sanitize: sanitize-address sanitize-thread

sanitize-address: ## As sanitize, under AddressSanitizer and UndefinedBehaviorSanitizer alone.
	@tools/sanitize.sh address "$(PART)"

sanitize-thread: ## As sanitize, under ThreadSanitizer alone.
	@tools/sanitize.sh thread "$(PART)"

fuzz: ## Run each fuzz target for FUZZ_SECONDS (20), from fuzz/corpus; what one finds is in build/fuzz.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build test analyse' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the fuzz targets' 'cmake --preset asan-ubsan && cmake --build --preset asan-ubsan -j $(JOBS) --target fuzz/all' \
	  'Fuzzing' 'tools/fuzz.sh $(FUZZ_SECONDS)'

corpus: ## Write the seeds of fuzz/corpus anew.
	@cmake --preset dev && cmake --build --preset dev -j $(JOBS) --target make_corpus && build/dev/fuzz/make_corpus fuzz/corpus

chaos: ## Run work of all kinds for CHAOS_SECONDS (300) while processes, networks and disks fail; needs root.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build test' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Working while things fail' '.venv/bin/python bench/chaos/run.py --seconds $(CHAOS_SECONDS) --seed $(CHAOS_SEED)'

format: ## Format the C++ and Python sources.
	@tools/install_packages.sh analyse
	@git ls-files '*.cc' '*.h' | xargs clang-format-16 -i
	@tools/checks/lint.sh --fix

docs: ## Make a site of the pages in build/site, which needs no network: open build/site/index.html.
	@tools/steps.sh \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Making the site' 'NO_MKDOCS_2_WARNING=1 .venv/bin/python -m mkdocs build --strict' \
	  'Saying where it is' 'echo file://$(CURDIR)/build/site/index.html'

prose: ## Check the English of pages, comments and docstrings (tools/checks/prose.toml has the rules).
	@tools/steps.sh \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Checking the English' '.venv/bin/python tools/checks/prose.py'

dist: ## Make a release in dist/: wheels for many Linuxes and two processors, the jar, sources, checksums, an SBOM.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build dist' \
	  'Making a release in dist (half an hour the first time)' 'python3 tools/dist/make_dist.py'

test-dist: ## Run the wheels of dist/ on a Debian 11 of their processor (needs root), and with each of PYTHONS here.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh test-dist' \
	  'Running the wheel for x86-64' 'python3 tools/dist/try_wheel.py --machine x86_64' \
	  'Running the wheel for AArch64, emulated' 'python3 tools/dist/try_wheel.py --machine aarch64'$(if $(PYTHONS), \
	  'Running the wheels on other Pythons' 'python3 tools/dist/try_python.py $(PYTHONS)')

check-reproducible: ## Make the release of the last commit twice, the second time in another folder, and compare the files.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build dist' \
	  'Making a release twice (an hour and more)' 'python3 tools/dist/check_reproducible.py'

clean: ## Remove everything built, .venv included.
	rm -rf build dist jvm/target .venv .venv-demo .venv-lint .pytest_cache spark-warehouse
