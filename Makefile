# The two commands: `make demo` and `make test`. Each readies the machine first and skips what is done.

SHELL := /bin/bash
.DEFAULT_GOAL := help
# Every target drives a tool of its own; running two at a time would only mix their output.
.NOTPARALLEL:
.PHONY: help demo demo-hdfs build test sanitize format prose clean

export CMAKE_CXX_COMPILER_LAUNCHER := ccache
JOBS ?= $(shell nproc)
# Directory with MNIST as idx .gz files for `make demo`; empty: scikit-learn's digits.
MNIST ?=
# Further arguments of pytest for `make test`, such as -k NAME.
PYTEST_ARGS ?=
# Most tests wait for other processes more than they compute. Each of the two has a Spark of its own.
PYTEST = .venv/bin/python -m pytest --numprocesses 2 --dist loadfile --no-loadscope-reorder
# The extension is part of the wheel, and tested as that.
BUILD_DEV = cmake --preset dev -DTFOS_BUILD_PYTHON=OFF && cmake --build --preset dev -j $(JOBS)

help: ## Show this help.
	@echo "make demo [MNIST=DIR] Train and infer on a two-node cluster of this machine (digits, or MNIST's .gz files in DIR)."
	@awk -F ': ## ' '/^[a-z-]+: ## / { printf "make %-18s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

define CHECK_MNIST
	@if [ -n "$(MNIST)" ] && ! ls "$(MNIST)"/*-images-idx3-ubyte.gz >/dev/null 2>&1; then \
	  echo "MNIST=$(MNIST): there is no *-images-idx3-ubyte.gz; name the directory with MNIST's .gz files" >&2; exit 2; fi
endef

demo:
	$(CHECK_MNIST)
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Building the native part and the wheel (ccache)' 'tools/install_wheel.sh' \
	  'Training and inference on a standalone Spark cluster' \
	  '.venv/bin/python tools/spark_cluster.py -- .venv/bin/python examples/mnist_spark.py --master {master} --mnist "$(MNIST)"'

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
	  'Building the C++ part and its tests (ccache)' '$(BUILD_DEV)' \
	  'Building and installing the wheel' 'tools/install_wheel.sh'

test: ## Build and run all tests: layers, C++ (ctest), Python on real Spark clusters (pytest).
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh run build test hdfs' \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Checking the layers' '.venv/bin/python tools/check_layers.py' \
	  'Checking the English' '.venv/bin/python tools/prose.py' \
	  'Building the C++ tests (ccache)' '$(BUILD_DEV)' \
	  'Running the C++ tests' 'ctest --preset dev -j $$((2 * $(JOBS)))' \
	  'Building and installing the wheel' 'tools/install_wheel.sh' \
	  'Checking what the binaries show and need' '.venv/bin/python tools/check_symbols.py .venv/lib/python*/site-packages/tfos/_*.so .venv/lib/python*/site-packages/tfos/bin/tfos build/dev/src/jvm/libtfos_jvm.so' \
	  "Archiving Spark's classes" '.venv/bin/python tools/archive_spark_classes.py build/spark-classes.jsa' \
	  'Running the Python tests' '$(PYTEST) tests/python $(PYTEST_ARGS)'

sanitize: ## Run the C++ tests under AddressSanitizer, UndefinedBehaviorSanitizer and ThreadSanitizer.
	@tools/steps.sh \
	  'Installing missing Debian packages' 'tools/install_packages.sh build test' \
	  'Building with AddressSanitizer and UndefinedBehaviorSanitizer' 'cmake --preset asan-ubsan && cmake --build --preset asan-ubsan -j $(JOBS)' \
	  'Running the C++ tests' 'ctest --preset asan-ubsan -j $(JOBS)' \
	  'Building with ThreadSanitizer' 'cmake --preset tsan && cmake --build --preset tsan -j $(JOBS)' \
	  'Running the C++ tests' 'ctest --preset tsan -j $(JOBS)'

format: ## Format the C++ sources.
	@tools/install_packages.sh analyse
	@git ls-files '*.cc' '*.h' | xargs clang-format-16 -i

prose: ## Check the English of pages, comments and docstrings (tools/prose.toml has the rules).
	@tools/steps.sh \
	  'Making the Python environment .venv' 'tools/make_venv.sh' \
	  'Checking the English' '.venv/bin/python tools/prose.py'

clean: ## Remove everything built, .venv included.
	rm -rf build dist jvm/target .venv .pytest_cache spark-warehouse
