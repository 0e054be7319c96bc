#!/usr/bin/env bash
# Runs the tests of nodes without TensorFlow, whose Keras runs on JAX or PyTorch:
#   tools/test_backends.sh [ARGUMENT of pytest]...
# The nodes' Python is in build/backends; driver and executors are those of .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/backends
stamp=$venv/made-from
wanted=$(.venv/bin/python --version; sha256sum tools/locked/backends.txt)
if [[ ! -e $stamp || $(<"$stamp") != "$wanted" ]]; then
  "$(.venv/bin/python -c 'import sys; print(sys._base_executable)')" -m venv --clear "$venv"
  "$venv/bin/python" -m pip --disable-pip-version-check install --quiet --require-hashes \
    -r tools/locked/backends.txt
  printf '%s' "$wanted" >"$stamp"
fi
# The package as .venv has it: no second build.
rm -rf "$venv"/lib/python3*/site-packages/tfos
cp -r .venv/lib/python3*/site-packages/tfos "$venv"/lib/python3*/site-packages/
if "$venv/bin/python" -c 'import tensorflow' 2>/dev/null; then
  echo "$venv has TensorFlow, which these tests must do without" >&2
  exit 1
fi
TFOS_TESTS_PYTHON=$PWD/$venv/bin/python exec .venv/bin/python -m pytest \
  tests/python/node/test_backends.py tests/python/node/test_torch.py "$@"
