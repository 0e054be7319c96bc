#!/usr/bin/env bash
# Writes the files beside it anew: each package that tools install from PyPI, and the ones that it
# needs, in one version and with the hashes of its files. pip refuses any other file.
#   tools/locked/lock.sh [ARGUMENT of `uv pip compile`, such as --upgrade or --upgrade-package NAME]...
# Versions that are locked stay unless an argument says otherwise. Needs uv (pip install uv).
set -euo pipefail
cd "$(dirname "$0")/../.."

lock() { # NAME REQUIREMENT... as uv takes them
  local output=tools/locked/$1.txt
  shift
  uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
    --no-header --output-file "$output" "${arguments[@]}" "$@" >/dev/null
  echo "$output"
}

arguments=("$@")
for tensorflow in tensorflow-cpu tensorflow; do
  environment=environment-$tensorflow
  lock "$environment" tools/requirements.txt - <<<"$tensorflow==2.21.*"
  # What the demo's environment is tested with.
  lock "component-$tensorflow" --constraints "tools/locked/$environment.txt" \
    tools/requirements-run.txt - <<<"$tensorflow==2.21.*"
done
# What `make test-matrix` adds to it (SPARKS of tools/matrix/combinations.py, except the one above).
for version in 3.5.7 4.0.1 4.2.1 4.3.0; do
  lock "pyspark-$version" - <<<"pyspark==$version"
done
# Without what it needs: it wants `tensorflow`, which would replace tensorflow-cpu.
lock legacy-keras --no-deps - <<<'tf_keras==2.21.*'
lock lint tools/checks/requirements-lint.txt
lock release tools/dist/requirements.txt
lock backends tools/requirements-backends.txt
